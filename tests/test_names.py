"""Names that were given up stay away: code, tests, pages, plans, notebooks have the new ones."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
KINDS = ("*.py", "*.pyi", "*.md", "*.toml", "*.ipynb", "*.html", "*.jinja")
# The table of both names, records and messages that keep the old ones, budgets by path, this file.
APART = {
    "CHANGELOG.md",
    "benchmarks/results/mutants.md",
    "packages/catchment/src/catchment/wire/kept.py",
    "tests/test_names.py",
    "tools/budget.toml",
}
SENT = r"packages/catchment(-fleet)?/src/[a-z_]+/(federation|engine|privacy|flower|apps|ray)/"
# Old name (a regular expression), new name, and files that are looked at: all of them, but for
# words that mean something else elsewhere.
NAMES = [
    (r"SecureSum|secure_sum|\b[Ss]ecure sums?\b", "SecureAggregation", ""),
    (r"make_identities", "generate_keys", ""),
    (r"\bPrepare\(|`Prepare`|import .*\bPrepare\b", "Preprocessing", ""),
    (r"\bprepare=|^\[prepare\]|model\.prepare\b", "preprocessing", ""),
    (r"\bprotect=|\[\[protect\]\]", "protections", ""),
    (r"\bConcat\(|\bWithNorm\b|\bRandomFourier\b", "FeatureUnion, AppendNorm, ...", ""),
    (r"\bProjected\b", "RandomProjection", ""),
    (
        r"map\"?(?: =|:) \"(?:concat|with_norm|projected|random_fourier)\"",
        "feature_union, append_norm, random_projection, random_fourier_features",
        "",
    ),
    (r"\bDevice\(|\bct\.Device\b|:Device\b|import .*\bDevice\b", "EdgeClient", ""),
    (r"read_lake|\bLake(?:Client)?\b", "read_parquet, ParquetClients", ""),
    (r"tell_unknown|OpenModel", "reject_unknown, OpenSetModel", ""),
    (r"`join`|ct\.join|catchment join\b", "add_clients", r"docs/|.*README|examples/"),
    (r"`retire`|ct\.retire\b", "remove_class", ""),
    (r"FederatedNormal|NormalModel|algorithm = \"normal\"", "FederatedAnomalyDetector", ""),
    (r"false_alarms", "false_positive_rate", ""),
    (r"\bGuess\(|`Guess`|\bmean_target\b", "Dummy, constant_baseline", ""),
    (
        r"baselines = \[[^\]]*\"(?:random|majority|centralised|personalised)\"",
        "uniform, most_frequent, centralized, personalized",
        "",
    ),
    (r"(?:=|ct\.)(?:Gaussian|Unit)\(|head = (?:\{name = )?\"(?:gaussian|unit)\"", "LDA, ...", ""),
    (r"SmallestUpload|RoundedUpload", "LowRankUpload, StochasticQuantization", ""),
    (r"InfluenceCap|PerSequence", "RecordLevel", ""),
    (r"\bReleases?\(|import .*\bReleases?\b|`Releases?`", "PrivacyLedger, LedgerEntry", ""),
    (r"ridge\"?(?:=|: | = )\"(?:clients|groups)\"", "leave-one-client-out, ...", ""),
    (r"keep_clients", "store_per_client", ""),
    # A share is also a part of a secret, of units or of clients; in a plan it was this one.
    (r"^share = ", "client_fraction", r".*\.toml|docs/.*\.md"),
    # Sentences may begin with these words.
    (r"\bTurn\(|: Turn\b|`Turn`|\bNeeds\(|: Needs\b|`Needs`", "RoundContext, Requirements", ""),
    (r"import .*\bParts\b|`Parts`|\bKnown\(|: Known\b|`Known`", "Message, StageInputs", ""),
    (r"\btaken_apart\b|\bput_together\b|\bfrom_parts\b", "serialize, deserialize, ...", ""),
    (r"\b[Cc]onduct(?:s|ed|ors?)?\b|\bConductor\b", "Workflow", ""),
    (r"[Ss]tretch|STRETCH|\bSpans?\b|\b[Mm]odel\.pieces\b", "segment", ""),
    # Files and messages have the key "course", and the C form of a device a constant of that name.
    (r"(?<![\"/])\b[Cc]ourses?\b(?![\"/])(?!\.py)|_course\b", "workflow", ""),
    (
        r"(?:[Ss]tandard|[Cc]entral|[Nn]ormal|[Pp]ersonal|[Gg]eneral|[Ii]nitial)is(?:e|ed|es|ing|ation)\b"
        r"|\b[Oo]ptimis(?:e|ed|er|ers|es|ing|ation)\b|ServerOptimiser",
        "American spelling",
        "",
    ),
    # Letters of an alphabet stay, and keys of journals and messages.
    (r"\b(?:[Tt]he|[Aa]|[Aa]nother|[Ee]very|its|own) letters?\b(?!,)", "request", SENT),
    (r"\b[Ii]nvented\b", "synthetic", ""),
    (r"catchment\[(?:\w+,)*secure\b|extra `secure`", "no extra: the core has cryptography", ""),
    (
        r"\bThinned\b|\bEchoStateMap\b|devices\"? ?= ?\"(?:same|any)\"",
        "row_stride, EchoState, ...",
        "",
    ),
    (r"catchment explain\b|\bcatchment\", \"explain\"", "catchment ledger, catchment diagnose", ""),
    (r"\b[Ll]earnt\b|[Cc]olour|[Bb]ehaviour|[Ff]avour|[Nn]eighbour", "American spelling", ""),
    (r"\bwhole numbers?\b", "integers", ""),
    # As a name; models and plan files of the release before have it as a word.
    (r"\binput_range\b(?!\")", "range", r".*src/.*\.pyi?|docs/.*\.md|.*README"),
    (
        r"\bon_(?:a_)?grid\b|\bgrid_(?:digits|sigmoid|linear|sin|tanh)\b"
        r"|on (?:the|a|its|their) grids?\b",
        "fixed point",
        r".*src/.*\.pyi?|docs/.*\.md|.*README",
    ),
    (
        r"taken for (?:what|\{)|more is better|ways? to learn together",
        "predicted as, higher is better",
        r".*src/|docs/",
    ),
]


def tracked() -> dict[str, list[str]]:
    """Return the lines of every file of these kinds that is tracked, by its path."""
    asked = subprocess.run(
        ["git", "ls-files", "-z", "--", *KINDS], cwd=ROOT, capture_output=True, check=False
    )
    paths = [one for one in asked.stdout.decode().split("\0") if one and one not in APART]
    if not paths:
        pytest.skip("not a clone: nobody can say which files are tracked")
    files = {one: ROOT / one for one in paths}
    return {
        one: path.read_text("utf-8").splitlines() for one, path in files.items() if path.exists()
    }


def left(files: dict[str, list[str]], old: str, where: str) -> list[str]:
    """Return `path:line: text` of every place that has an old name."""
    find, here = re.compile(old).search, re.compile(where).match
    return [
        f"{path}:{number}: {line.strip()[:90]}"
        for path, lines in files.items()
        if here(path)
        for number, line in enumerate(lines, 1)
        if find(line)
    ]


def test_no_name_that_was_given_up_is_left() -> None:
    files = tracked()
    found = [f"{one} -> {new}" for old, new, where in NAMES for one in left(files, old, where)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("old", "line"),
    [
        ("Prepare", "model = ct.Pipeline(ct.Prepare(horizon=1), reservoir)"),
        ("concat", 'map = "concat"'),
        ("concat", '{"map": "concat"}'),
        ("course", "course = file.workflow(about)"),
        ("majority", 'baselines = ["local", "majority"]'),
        ("Thinned", "model = Thinned(map, 8)"),
        ("explain", "$ catchment explain runs/plan"),
        ("input_range", "MiniRocket(504, input_range=8.0)"),
        ("olour", "a colour of its own"),
    ],
)
def test_an_old_name_is_found(old: str, line: str) -> None:
    files = {"docs/page.md": ["", line]}
    found = [
        one for pattern, _, where in NAMES if old in pattern for one in left(files, pattern, where)
    ]
    assert found == [f"docs/page.md:2: {line}"]

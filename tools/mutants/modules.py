"""Which tests should notice a fault of which module, those that answer soonest first.

Attacks (`catchment_lab.audit`) are left out: an attack that fails breaks no promise, and its
own tests say how strong it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SUMS = (
    "tests/security/test_masks_*.py",
    "tests/security/test_c[12]_*.py",
    "tests/security/test_a0[68]_*.py",
    "tests/security/test_m[1-4]_*.py",
    "tests/security/test_traces_*.py",
    "tests/privacy/secure_aggregation",
    "tests/security/test_a1[013]_*.py",
    "tests/security/test_c[34]_*.py",
    "tests/security/test_a0[57]_*.py",
    "tests/security/test_a03_*.py",
    "tests/security/test_n2_one_*.py",
    "tests/security/test_n3_laws_*.py",
)
NOISE = (
    "tests/security/test_n3_laws_*.py",
    "tests/privacy/dp",
    "tests/security/test_a1[78]_*.py",
    "tests/security/test_c4_*.py",
    "tests/security/test_h[56]_*.py",
    "tests/partial/test_protected.py",
    "tests/privacy/test_releases*.py",
)
LEDGER = (
    "tests/security/test_n3_laws_*.py",
    "tests/privacy/test_releases*.py",
    "tests/security/test_c[34]_*.py",
    "tests/security/test_m5_*.py",
    "tests/security/test_h[46]_*.py",
    "tests/security/test_a1[89]_*.py",
    "tests/security/test_n[12347]_*.py",
)
LOOP = (
    "tests/security/test_n3_laws_*.py",
    "tests/federation/test_loop.py",
    "tests/federation/test_upload_checks.py",
    "tests/security/test_h[1235]_*.py",
)
SOLVE = (
    "tests/security/test_n3_laws_*.py",
    "tests/readout/test_solve.py",
    "tests/readout/test_ridge_choice*.py",
    "tests/readout/test_exact_solve.py",
    "tests/readout/test_uncertainty.py",
)
PARTIAL = (
    "tests/partial/test_ftrl*.py",
    "tests/security/test_p61_*.py",
    "tests/partial/test_training*.py",
    "tests/partial/test_protected*.py",
)
PERSONAL = ("tests/federation/learn/test_personal*.py",)
DATA = (
    "tests/data/test_prepare.py",
    "tests/plans/test_folds.py",
    "tests/plans/test_weeks.py",
    "tests/federation/test_normal.py",
)

# A folder's modules, or one module, and their tests; the first that fits counts.
OF: dict[str, tuple[str, ...]] = {
    "packages/catchment/src/catchment/privacy/secure_aggregation": SUMS,
    "packages/catchment/src/catchment/privacy/dp": NOISE,
    "packages/catchment/src/catchment/privacy": LEDGER,
    "packages/catchment-research/src/catchment_research/partial/ftrl.py": PARTIAL,
    "packages/catchment-research/src/catchment_research/partial/training.py": PARTIAL,
    "packages/catchment/src/catchment/federation/loop.py": LOOP,
    "packages/catchment/src/catchment/federation/checks.py": LOOP,
    "packages/catchment/src/catchment/readout/solve.py": SOLVE,
}
LEFT_OUT = ("packages/catchment-lab/src/catchment_lab/audit/",)


def found(patterns: Sequence[str]) -> tuple[str, ...]:
    """Return the files and folders of all packages that patterns name, in their order.

    >>> found(["tests/privacy/secure_aggregation", "tests/no_such_*.py"])
    ('packages/catchment/tests/privacy/secure_aggregation',)
    """
    files = [file for pattern in patterns for file in sorted(ROOT.glob(f"packages/*/{pattern}"))]
    return tuple(dict.fromkeys(str(file.relative_to(ROOT)) for file in files))


def modules_and_tests() -> dict[str, tuple[str, ...]]:
    """Return the tests of every module that automatic faults are put into.

    >>> "packages/catchment-research/src/catchment_research/partial/ftrl.py" in modules_and_tests()
    True
    """
    modules: dict[str, tuple[str, ...]] = {}
    for place, tests in OF.items():
        files = [ROOT / place] if place.endswith(".py") else sorted((ROOT / place).rglob("*.py"))
        for file in files:
            path = str(file.relative_to(ROOT))
            if not path.startswith(LEFT_OUT):
                modules.setdefault(path, found(tests))
    return modules

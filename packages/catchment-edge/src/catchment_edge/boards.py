"""A model, or a client's autocovariances, as the tree that a board's own tools unpack.

A target is a folder of templates in firmware/, whose examples/ differ between a model that reads a
stream and a client that sums one.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from catchment_edge.c.code import CCode
from catchment_edge.training.lags import lags_c_code

FIRMWARE = ("arduino", "zephyr", "esp-idf", "platformio", "micropython")
_FOLDER = Path(__file__).parent / "firmware"
_EXAMPLES = {
    "arduino": ("examples/{0}/{0}.ino", "ino"),
    "platformio": ("examples/{0}/{0}.ino", "ino"),
    "zephyr": ("samples/{0}/src/main.c", "zephyr.c"),
    "esp-idf": ("examples/{0}/main/main.c", "esp-idf.c"),
    "micropython": ("module.c", "micropython.c"),
}

_SELFTEST = """config {upper}_SELFTEST
\tbool "Compile recordings with known scores, and {name}_selftest, which compares"
"""
_CLASSES = """
static mp_obj_t classes(void)
{{
    mp_obj_t names[{upper}_OUTPUTS];
    int i;
    for (i = 0; i < {upper}_OUTPUTS; i++) {{
        size_t length = 0;
        while ({name}_classes[i][length] != 0)
            length++;
        names[i] = mp_obj_new_str({name}_classes[i], length);
    }}
    return mp_obj_new_tuple({upper}_OUTPUTS, names);
}}
static MP_DEFINE_CONST_FUN_OBJ_0(classes_obj, classes);
"""
_CONSOLES = {
    "esp-idf": """void app_main(void)
{
    static char line[64];
    lags_start(&sums);
    for (;;) {
        if (fgets(line, sizeof line, stdin) != NULL)
            take(line);
        else
            clearerr(stdin);
    }
}""",
    "zephyr": """int main(void)
{
    console_getline_init();
    lags_start(&sums);
    for (;;)
        take(console_getline());
}""",
}


def model_firmware(target: str, code: CCode) -> Mapping[str, str]:
    """Return the files of a tree with a model, by their paths in it.

    Parameters
    ----------
    target
        One of `FIRMWARE`.
    code
        The model as C, of `c_code`.

    >>> import numpy as np
    >>> from catchment import EchoState, Recording, fit
    >>> from catchment_edge.c.code import c_code
    >>> waves = [np.sin(np.arange(60) / (3 + k % 2)) for k in range(10)]
    >>> data = [Recording.labeled(u, k % 2, ("fast", "slow")) for k, u in enumerate(waves)]
    >>> tree = model_firmware("arduino", c_code(fit(EchoState(20), data), name="waves"))
    >>> sorted(tree)[:3]
    ['README.md', 'examples/stream/stream.ino', 'keywords.txt']
    """
    name = code.layout.name
    upper, classes = name.upper(), code.layout.model.classes is not None
    best = f"{name}_classes[{name}_class(scores)]"
    functions = ["reset", "step", "finish", "predict", *(["class"] if classes else [])]
    marks = {
        "SENTENCE": f"{'Classifies' if classes else 'Predicts from'} recordings of "
        f"{code.layout.model.n_inputs} channels.",
        "KEYWORDS": "\n".join(f"{name}_{one}\tKEYWORD2" for one in functions),
        "SELFTEST_KCONFIG": _SELFTEST.format(name=name, upper=upper).rstrip(),
        "SAY_ARDUINO": f"Serial.println({best if classes else 'scores[0]'});",
        "SAY_PRINTF": f'printf("%s\\n", {best});'
        if classes
        else 'printf("%g\\n", (double)scores[0]);',
        "CLASSES_FUNCTION": _CLASSES.format(name=name, upper=upper) if classes else "",
        "CLASSES_ENTRY": "    mp_store_global(MP_QSTR_classes, MP_OBJ_FROM_PTR(&classes_obj));\n"
        if classes
        else "",
        "USE": f"    {name}.reset()\n    scores = {name}.step(sample)  # None until there are some",
    }
    sources = {f"{name}.c": code.source, f"{name}.h": code.header}
    return _tree(target, name, "stream", sources, marks)


def lags_firmware(target: str, lookback: int, horizon: int) -> Mapping[str, str]:
    """Return the files of a tree with a client of a Yule-Walker forecast, by their paths in it.

    >>> tree = lags_firmware("platformio", 336, 24)
    >>> "#define LAGS 360" in tree["src/lags.h"]
    True
    """
    lags = lookback + horizon
    marks = {
        "SENTENCE": f"Sums the autocovariances of one series up to lag {lags}.",
        "KEYWORDS": "\n".join(f"lags_{one}\tKEYWORD2" for one in ("start", "feed", "gap", "sent")),
        "SELFTEST_KCONFIG": "",
        "MAIN": _CONSOLES.get(target, ""),
        "INCLUDES": "#include <zephyr/console/console.h>\n\n" if target == "zephyr" else "",
        "USE": "    lags.feed(lags.fixed(21.5, mean, scale))\n    sums = lags.sums()",
    }
    return _tree(target, "lags", "autocovariances", lags_c_code(lookback, horizon), marks)


def _tree(
    target: str, name: str, example: str, sources: Mapping[str, str], marks: Mapping[str, str]
) -> Mapping[str, str]:
    """Return a target's templates, an example and the sources, every @MARK@ replaced."""
    if target not in FIRMWARE:
        raise ValueError(f"there is no firmware {target!r}; take one of {', '.join(FIRMWARE)}")
    where, kind = _EXAMPLES[target]
    code = _FOLDER / "examples" / f"{example}.{kind}"
    if not code.exists():
        code = code.with_name(f"{example}.console.c")
    templates = {
        file.relative_to(_FOLDER / target).as_posix(): file.read_text(encoding="utf-8")
        for file in sorted((_FOLDER / target).rglob("*"))
        if file.is_file()
    }
    templates[where.format(example)] = code.read_text(encoding="utf-8")
    names = {"NAME": name, "UPPER": name.upper(), "EXAMPLE": example}
    values = {**marks, **names, "VERSION": version("catchment-edge")}

    def filled(text: str) -> str:
        for mark, value in values.items():
            text = text.replace(f"@{mark}@", value)
        return text.rstrip() + "\n"

    found = {filled(path).strip(): filled(text) for path, text in templates.items()}
    found |= {f"src/{path}": text for path, text in sources.items()}
    return {path: text for path, text in found.items() if text.strip()}

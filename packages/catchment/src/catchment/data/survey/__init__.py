"""A look at files before anything is learned from them: who, how long, how fast, and what is wrong.

`survey` opens every file by itself, so that one bad file does not hide the others; `summary_lines`
says what it found.
"""

from __future__ import annotations

from catchment.data.survey.look import Problem, Survey, summary_lines, survey

# For the other packages and the tests; may change without notice.
from catchment.data.survey.roles import facts_of as facts_of

__all__ = ["Problem", "Survey", "summary_lines", "survey"]

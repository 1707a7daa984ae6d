"""A look at files before anything is learned from them: who, how long, how fast, and what is wrong.

`survey` opens every file by itself, so that one bad file does not hide the others; `summary_lines`
says what it found.
"""

from __future__ import annotations

# For the other packages and the tests; may change without notice.
from catchment.data.survey.column_facts import facts_of as facts_of
from catchment.data.survey.look import Survey, survey
from catchment.data.survey.one_file import Problem
from catchment.data.survey.words import summary_lines

__all__ = ["Problem", "Survey", "summary_lines", "survey"]

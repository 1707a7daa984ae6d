# For the other packages and the tests; may change without notice.
from catchment_lab.commands.watch import has_screen as has_screen

__all__ = []

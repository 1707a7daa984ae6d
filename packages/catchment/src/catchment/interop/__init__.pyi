# For the other packages and the tests; may change without notice.
from catchment.interop.aeon import TimeSeriesClassifier as TimeSeriesClassifier
from catchment.interop.sktime import YuleWalkerForecaster as YuleWalkerForecaster

__all__ = []

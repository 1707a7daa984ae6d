# For the other packages and the tests; may change without notice.
from catchment_lab.interop.aeon import TimeSeriesClassifier as TimeSeriesClassifier
from catchment_lab.interop.sktime import YuleWalkerForecaster as YuleWalkerForecaster

__all__ = []

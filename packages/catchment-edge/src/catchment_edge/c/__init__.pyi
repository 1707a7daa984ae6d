# For the other packages and the tests; may change without notice.
from catchment_edge.c.code import traits as traits
from catchment_edge.c.echo_state import dense as dense, sparse as sparse, whole as whole
from catchment_edge.c.maps import Reading as Reading, Words as Words, sines as sines
from catchment_edge.c.pieces import needed as needed

__all__ = []

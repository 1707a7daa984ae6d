"""Where data enter: recordings and clients, files and frames, and what prepares them.

`read` turns a folder of files into clients, `split` keeps whole clients for the test,
`Preprocessing` says what happens to a raw recording before a feature map sees it. Generators make
series to try things on; `catchment_lab.datasets` reads public sets from their publishers' files.
"""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)

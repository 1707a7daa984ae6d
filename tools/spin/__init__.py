"""Models of secure aggregation in Promela, and Spin, which tries everything they can do.

`secure_aggregation.pml` has a server that lies, `liveness.pml` one that is honest and clients that
are lost or lie; `checks` names the sizes and what must come out, `acceptor` says whether a recorded
run of the library is one that the first model allows.

    python -m tools.spin            check all, print state spaces and times
    python -m tools.spin --quick    the small ones
    python -m tools.spin --record   check all, and write the table to results.md

What is modeled: the full graph, one round, perfect signatures, hashes and boxes. What is not: the
sparse ring, numbers of rounds, the ledger, more than five clients.
"""

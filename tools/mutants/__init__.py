"""Faults put into the code on purpose, one at a time, to see whether a test notices.

`named` holds faults that were thought of, each a text and its replacement; `automatic` makes many
small ones from the syntax tree; `trial` runs the tests of a module on a copy of the repository with
one fault in it. A fault that no test notices is alive: a test is missing, or the fault is none.

    python -m tools.mutants                     every named fault
    python -m tools.mutants --sample 200        and 200 of the automatic ones
    python -m tools.mutants --only 'noise *'    those whose name fits a pattern
    python -m tools.mutants --resume            leave out what is on record for the present source
"""

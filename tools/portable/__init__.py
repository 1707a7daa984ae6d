"""Echo-state maps in fixed point in plain C, integers only: for devices, and as proof of the bits.

The form itself is in the library, without memory or floating point of its own. `main.c` runs it on
a dump; `doubles.c` has the activations in float64, to compare; `exhaustive.c` compares them on
every argument. `dump` writes maps and sequences, `machines` compiles and runs on this and on
emulated processors.
"""

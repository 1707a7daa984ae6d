"""Automatic faults that nobody can notice, by name, and why."""

from __future__ import annotations

EQUIVALENT = {
    "accounting.py module constant 5": (
        "moves orders by 1e-4 of themselves at most, and epsilon is flat at the best of them"
    ),
    "accounting.py module constant 6": (
        "moves orders by 1e-4 of themselves at most, and epsilon is flat at the best of them"
    ),
    "budget.py Budget.charge compare 1": (
        "differs only where a sum is the budget and its tolerance to the last bit"
    ),
    "discrete.py _exact_head compare 1": "no power of e but e^0 is a fraction of integers",
    "discrete.py _heads compare 1": "equal numbers are a tie, which exact arithmetic decides",
    "discrete.py _heads compare 2": "at the bound of a tie both ways of deciding agree",
    "discrete.py discrete_laplace constant 4": "one number more is drawn, and cut off",
    "gaussian.py concentrated_delta constant 16": (
        "any two points within the bracket narrow it down to the same minimum"
    ),
    "graph.py _falls_apart constant 5": (
        "decides in no round computed: every ninth size of 103 to 391, 0, 5 and 20 % corrupt"
    ),
    "graph.py degree constant 12": (
        "`uncut` was never below it: every ninth size of 103 to 391, 0, 5 and 20 % corrupt"
    ),
    "graph.py degree constant 16": (
        "`uncut` was never below it: every ninth size of 103 to 391, 0, 5 and 20 % corrupt"
    ),
    "ring.py _bit_length compare 2": (
        "a number that is rounded up to a power of two is so with a bit less, too, and 0 stays 0"
    ),
    "ring.py encode constant 11": (
        "a float64 below 1 is at most 1 - 2^-53: its lower limb does not reach 2^64"
    ),
    "server_journal.py Journal.begin constant 4": (
        "there is never more than one: an unfinished attempt at a round is returned, not followed"
    ),
    "solve.py _solver constant 7": "a flag: 2 is as true as 1",
    "solve.py singular_error constant 6": (
        "the largest eigenvalue of a matrix of moments is not below 0 but by rounding"
    ),
    "training.py FederatedTraining.client_updates constant 2": "all of a group are of one round",
    "training.py one_set constant 2": "one piece joined to none is that piece",
    "upload_checks.py _can_be_moments constant 6": (
        "a negative diagonal entry has no Cholesky factor either"
    ),
}

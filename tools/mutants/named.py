"""Faults that were thought of: each breaks one promise, and a test must say so."""

from __future__ import annotations

from tools.mutants.modules import NOISE, PARTIAL, PERSONAL, SUMS, found
from tools.mutants.mutant import Edit, Mutant

SUM = "src/catchment/privacy/secure_sum/"
DP = "src/catchment/privacy/dp/"
FTRL = "src/catchment/partial/ftrl.py"
TRAINING = "src/catchment/partial/training.py"
LEARN = "src/catchment/federation/learn/"

_OWN_MASK = (
    '    add_into(numbers, masks.of(own_mask_key(side.session, me, side.book["own mask"])))\n'
)

_SUMS = {
    "secure sum without own masks, on both sides": (
        Edit(SUM + "client.py", _OWN_MASK, ""),
        Edit(
            SUM + "server.py",
            "            subtract_from(total, masks.of(own_mask_key(self._session, place, own)))\n",
            "",
        ),
    ),
    "pair masks without the session's salt": (
        Edit(
            SUM + "client.py",
            'salt=session.digest("mask"), purpose=purpose',
            'salt=b"", purpose=purpose',
        ),
    ),
    "consents not verified by clients": (
        Edit(
            SUM + "client.py",
            '        side.verify("survivors", place, signature, side.book["survivors"])\n',
            "        pass\n",
        ),
    ),
    "consents not verified by the server": (
        Edit(
            SUM + "server.py",
            '            self._verify("survivors", client, consent, self._bits("update").tobytes())\n',
            "",
        ),
    ),
    "adverts not verified by clients": (
        Edit(
            SUM + "client.py",
            '        side.verify("keys", place, advert[2 * keys.KEY_BYTES :], key)\n',
            "        pass\n",
        ),
    ),
    "uploads not verified by the server": (
        Edit(
            SUM + "server.py",
            '        self._verify("upload", client, from_rows(signature, 1, 64)[0], content)\n',
            "",
        ),
    ),
    "threshold one less": (
        Edit(SUM + "graph.py", "-(-2 * n_holders // 3)", "-(-2 * n_holders // 3) - 1"),
    ),
    "threshold rule lets half pass": (
        Edit(
            SUM + "client_rules.py",
            "n_neighbours + 1 < 2 * threshold",
            "n_neighbours < 2 * threshold",
        ),
    ),
    "one consent fewer is enough": (
        Edit(SUM + "client.py", "if len(signers) + 1 < t:", "if len(signers) + 2 < t:"),
    ),
    "both shares of a lost client given": (
        Edit(
            SUM + "client.py",
            "pair[:SHARE_BYTES] if place in survivors else pair[SHARE_BYTES:]",
            "pair[:SHARE_BYTES] if place in survivors or len(held) > 3 else pair[SHARE_BYTES:]",
        ),
    ),
    "another letter of a stage answered": (
        Edit(SUM + "client_notes.py", "if known != content:", "if False:"),
    ),
    "secrets kept after the last answer": (
        Edit(
            SUM + "client_notes.py",
            '            if stage == "unmask":\n',
            "            if False:\n",
        ),
    ),
    "shares of the own mask not compared with the promise": (
        Edit(
            SUM + "server.py",
            'if self._session.digest("own mask", own) != self._row("shares", place):',
            "if False:",
        ),
    ),
}

_NOISE = {
    "noise halved": (
        Edit(
            DP + "noise.py",
            "        return self.multiplier * self.sensitivity\n",
            "        return self.multiplier * self.sensitivity / 2\n",
        ),
    ),
    "noise 5 % low": (
        Edit(
            DP + "noise.py",
            "        return self.multiplier * self.sensitivity\n",
            "        return self.multiplier * self.sensitivity * 0.95\n",
        ),
    ),
    "clip 5 % over": (
        Edit(
            DP + "clipping.py",
            "    most = square_steps(bound, step)\n",
            "    bound *= 1.05\n    most = square_steps(bound, step)\n",
        ),
        Edit(
            DP + "clipping.py",
            "    longest, length = bound * (1 - MARGIN), float(np.linalg.norm(vector))\n",
            "    longest, length = 1.05 * bound, float(np.linalg.norm(vector))\n",
        ),
    ),
    "releases not composed": (
        Edit(
            DP + "noise.py",
            "needed = concentrated_multiplier(self.epsilon, self.delta) * math.sqrt(self.releases)",
            "needed = concentrated_multiplier(self.epsilon, self.delta)",
        ),
    ),
    "colluders ignored": (
        Edit(
            DP + "noise.py",
            "n_parties = self.min_clients - self.colluding if self.distributed else 1",
            "n_parties = self.min_clients if self.distributed else 1",
        ),
    ),
    "budget slack of 5 %": (
        Edit(
            DP + "budget.py",
            "after > self.epsilon * (1 + TOLERANCE)",
            "after > self.epsilon * (1.05 + TOLERANCE)",
        ),
    ),
    "budget forgets": (
        Edit(
            DP + "budget.py",
            "self._epsilon(spent.get(client, Cost()) + cost for client in clients)",
            "self._epsilon(cost for client in clients)",
        ),
    ),
    "epsilon by the concentration of half the noise": (
        Edit(
            DP + "gaussian.py",
            "concentrated_delta(0.5 / s**2, epsilon) <= delta",
            "concentrated_delta(0.25 / s**2, epsilon) <= delta",
        ),
    ),
}

_PARTIAL = {
    "tree node's noise used twice": (
        Edit(
            FTRL,
            "        drawn, zero = self._draw(values), tuple(np.zeros_like(x) for x in values)\n",
            "        drawn, zero = self._draw(values), tuple(np.zeros_like(x) for x in values)\n"
            "        drawn = slots[0] if lowest >= 2 else drawn\n",
        ),
    ),
    "restarts ignored in schedule_epsilon": (
        Edit(FTRL, "place = t % (rule.restart_every or rounds) + 1", "place = t + 1"),
    ),
    "epsilon counts one participation": (
        Edit(FTRL, "columns[:, R].sum(axis=1)", "columns[:, R[:1]].sum(axis=1)"),
    ),
    "tree noise 5 % low": (
        Edit(
            FTRL,
            "unit = self.noise_multiplier * self.clip / self.clients",
            "unit = 0.95 * self.noise_multiplier * self.clip / self.clients",
        ),
    ),
    "FedPT clients weighted alike": (
        Edit(
            TRAINING,
            "weights = [float(n) for n in n_examples]",
            "weights = [1.0 for n in n_examples]",
        ),
    ),
    "FedPT short changes lengthened by 10 %": (
        Edit(TRAINING, "/ length).clamp(max=1.0)", "/ length).clamp(max=1.1)"),
    ),
    "FedPT clip off": (
        Edit(TRAINING, "/ length).clamp(max=1.0)", "/ length).clamp(min=1.0, max=1.0)"),
    ),
}

_PERSONAL = {
    "personal readouts validated on their own rows": (
        Edit(LEARN + "personal.py", "(shared, *path(whole - part))", "(shared, *path(whole))"),
    ),
}

_EQUIVALENT = {
    "pair masks without the session's salt": (
        "mask keys are new in every round, so that their agreement alone makes the mask new"
    ),
}


def _all(faults: dict[str, tuple[Edit, ...]], patterns: tuple[str, ...]) -> tuple[Mutant, ...]:
    tests = found(patterns)
    return tuple(
        Mutant(name, edits, tests, _EQUIVALENT.get(name, "")) for name, edits in faults.items()
    )


NAMED: tuple[Mutant, ...] = (
    *_all(_SUMS, SUMS),
    *_all(_NOISE, NOISE),
    *_all(_PARTIAL, PARTIAL),
    *_all(_PERSONAL, PERSONAL),
)

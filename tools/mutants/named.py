"""Faults that were thought of: each breaks one promise, and a test must say so."""

from __future__ import annotations

from collections.abc import Mapping

from tools.mutants.modules import DATA, LEDGER, NOISE, PARTIAL, PERSONAL, SOLVE, SUMS, found
from tools.mutants.mutant import Edit, Mutant

SUM = "packages/catchment/src/catchment/privacy/secure_aggregation/"
DP = "packages/catchment/src/catchment/privacy/dp/"
RELEASES = "packages/catchment/src/catchment/privacy/ledger.py"
FTRL = "packages/catchment-research/src/catchment_research/partial/ftrl.py"
TRAINING = "packages/catchment-research/src/catchment_research/partial/training.py"
PREPARING = "packages/catchment/src/catchment/data/preprocessing.py"
RUNNING = "packages/catchment/src/catchment/plans/run.py"
LEARN = "packages/catchment/src/catchment/federation/learn/"

CLIENT, SERVER, NOTES = SUM + "client.py", SUM + "server.py", SUM + "client_store.py"


def _without(path: str, line: str) -> Edit:
    """Return a fault that leaves a line of code out."""
    spaces = line[: len(line) - len(line.lstrip())]
    return Edit(path, line + "\n", spaces + "pass\n")


_SUMS = {
    "secure aggregation without own masks, on both sides": (
        _without(
            CLIENT,
            "        add_into(numbers, masks.of("
            'keys.own_mask_key(terms.told, me.place, self._book["own mask"])))',
        ),
        _without(
            SERVER,
            "            subtract_from(total, masks.of(keys.own_mask_key(salt, place, secret)))",
        ),
    ),
    "secure aggregation without pair masks, on both sides": (
        Edit(
            CLIENT,
            "        for holder in near:\n            shared = agreement.shared("
            "holder.public[keys.KEY_BYTES :])",
            "        for holder in ():\n            shared = "
            "agreement.shared(holder.public[keys.KEY_BYTES :])",
        ),
        Edit(SERVER, "for place in sorted(set(self._good) - sealed):", "for place in ():"),
    ),
    "pair masks without the transcript as salt": (
        Edit(SUM + "keys.py", 'salt=salt, purpose=f"mask|', 'salt=b"", purpose=f"mask|'),
    ),
    "own masks without the transcript as salt": (
        Edit(SUM + "keys.py", 'salt=salt, purpose=f"own|', 'salt=b"", purpose=f"own|'),
    ),
    "transcript without the payload": (
        Edit(
            SUM + "keys.py",
            "before + present + digest(payload.to_bytes())",
            "before + present",
        ),
    ),
    "transcript without those present": (
        Edit(
            SUM + "keys.py",
            "before + present + digest(payload.to_bytes())",
            "before + digest(payload.to_bytes())",
        ),
    ),
    "transcript without the adverts": (
        Edit(SUM + "keys.py", 'members + b"".join(adverts)', "members"),
    ),
    "transcript without the nonces": (
        Edit(SUM + "keys.py", 'adverts + b"".join(nonces)', "adverts"),
    ),
    "consents not verified by clients": (
        _without(
            CLIENT,
            '        side.verify("survivors", place, signature, '
            'side.book["survivors"] + side.book["update"])',
        ),
    ),
    "consents not verified by the server": (
        _without(SERVER, '            self._verify("survivors", client, consent, told)'),
    ),
    "consents without the transcript": (
        Edit(
            CLIENT,
            'side.sign("survivors", bits.tobytes() + side.book["update"])',
            'side.sign("survivors", bits.tobytes())',
        ),
        Edit(
            CLIENT,
            'signature, side.book["survivors"] + side.book["update"])',
            'signature, side.book["survivors"])',
        ),
        Edit(
            SERVER,
            'told = self._bits("update").tobytes() + self._most.told',
            'told = self._bits("update").tobytes()',
        ),
    ),
    "adverts not verified by clients": (
        _without(
            CLIENT,
            '        side.verify("keys", place, advert[keys.SHOWN_BYTES :], '
            "advert[: keys.SHOWN_BYTES])",
        ),
    ),
    "a client's own advert not compared": (
        Edit(CLIENT, 'if shown[members.index(me)] != side.book["advert"]:', "if False:"),
    ),
    "nonces not compared with their commitments": (
        Edit(
            CLIENT,
            "if keys.commitment(session, place, reveal[: keys.NONCE_BYTES]) != promised:",
            "if False:",
        ),
    ),
    "uploads not verified by the server": (
        _without(
            SERVER,
            '        self._verify("upload", client, '
            "from_rows(signature, 1, 64)[0], told + content)",
        ),
    ),
    "threshold one less": (
        Edit(
            SUM + "graph.py",
            "max(-(-2 * n_holders // 3), (n_holders + n_corrupt) // 2 + 1)",
            "max(-(-2 * n_holders // 3), (n_holders + n_corrupt) // 2 + 1) - 1",
        ),
    ),
    "threshold does not count corrupt clients": (
        Edit(
            SUM + "graph.py",
            "max(-(-2 * n_holders // 3), (n_holders + n_corrupt) // 2 + 1)",
            "-(-2 * n_holders // 3)",
        ),
    ),
    "threshold rule does not count corrupt clients": (
        Edit(
            SUM + "protection.py",
            "if not n_holders + n_corrupt < 2 * threshold",
            "if not n_holders < 2 * threshold",
        ),
    ),
    "nobody is taken for corrupt": (
        Edit(
            SUM + "protection.py",
            "math.floor(self.corrupt * among + 1e-9)",
            "math.floor(0 * among + 1e-9)",
        ),
    ),
    "any share of the registered is enough": (
        Edit(
            SUM + "protection.py",
            "if n_clients < min_share * n_registered:",
            "if False:",
        ),
    ),
    "one consent fewer is enough": (
        Edit(
            CLIENT, "if len(signers) + 1 < side.threshold:", "if len(signers) + 2 < side.threshold:"
        ),
    ),
    "one signer counts twice": (
        Edit(CLIENT, "if len(set(signers)) != len(signers) or not", "if not"),
    ),
    "too few holders in a set": (
        Edit(CLIENT, "if len(holders) < self.threshold:", "if len(holders) + 1 < self.threshold:"),
    ),
    "the other share of every client given": (
        Edit(
            CLIENT,
            "if place in survivors else pair[SHARE_BYTES:]",
            "if place not in survivors else pair[SHARE_BYTES:]",
        ),
    ),
    "shares of the own mask given of everybody": (
        Edit(
            CLIENT,
            "if place in survivors else pair[SHARE_BYTES:]",
            "if True else pair[SHARE_BYTES:]",
        ),
    ),
    "both shares of everybody given": (
        Edit(
            CLIENT,
            "        if place in present\n    ]\n",
            "        if place in present\n    ]\n"
            '    both = side.book["held shares"]\n'
            "    given = [both[: SHARE_BYTES]] and given + cut(both, SHARE_BYTES)\n",
        ),
    ),
    "another letter of a stage answered": (Edit(NOTES, "if known != content:", "if False:"),),
    "secrets kept after the last answer": (
        Edit(NOTES, '            if stage == "unmask":', "            if False:"),
    ),
    "any number of a round accepted": (Edit(NOTES, "if number > highest + JUMP:", "if False:"),),
    "own mask not compared with the promise": (
        Edit(
            SERVER,
            'made = self._session.digest("own mask", secret) if own else keys.public_key(secret)',
            "made = promise if own else keys.public_key(secret)",
        ),
    ),
    "shares not compared with their digests by the server": (
        Edit(
            SERVER,
            "if keys.mark_of(self._session, owner, holder, which, given) == dealt:",
            "if dealt:",
        ),
    ),
    "boxes not compared with their digests by clients": (
        Edit(
            CLIENT,
            "if content is not None and keys.mark(side.session, place, me, content) == mark:",
            "if content is not None:",
        ),
    ),
    "a client in the sum whose box did not open": (
        Edit(
            CLIENT,
            'if set(present).intersection(side.members("complaints")):',
            "if False:",
        ),
    ),
    "present not compared with members": (
        Edit(
            CLIENT,
            'if side.place not in present or not set(present) <= set(side.members("members")):',
            "if side.place not in present:",
        ),
    ),
    "release entered after the shares": (
        _without(
            CLIENT,
            '    side.ledger.release(side.book["update"].hex(), side.named(survivors))',
        ),
    ),
    "no ledger asked before a consent": (
        _without(
            CLIENT,
            '    side.ledger.check(side.book["update"].hex(), side.named(survivors))',
        ),
    ),
}

_LEDGER = {
    "release not written": (
        _without(
            RELEASES,
            '        self._memory[_page(start // PAGE)] = b"\\n".join(lines[start:])',
        ),
    ),
    "same-clients rule off": (
        Edit(
            RELEASES,
            'if made.session and policy.exact == "same clients" and others:',
            "if False:",
        ),
    ),
    "changed data released": (
        Edit(
            RELEASES,
            "if not policy.changed_data and not all(self._are(one, made.data) for one in known):",
            "if False:",
        ),
    ),
    "one exact sum more": (
        Edit(
            RELEASES, "if len(before) >= policy.exact_sums:", "if len(before) > policy.exact_sums:"
        ),
    ),
    "ledger slack of 5 %": (
        Edit(RELEASES, "after <= limit * (1 + TOLERANCE)", "after <= limit * (1.05 + TOLERANCE)"),
    ),
    "ledger counts the new release only": (
        Edit(
            RELEASES,
            "epsilon_spent(sum((one.cost for one in before), start=made.cost), delta)",
            "epsilon_spent(made.cost, delta)",
        ),
    ),
    "later plans name the ledger's epsilon": (
        Edit(RELEASES, "first = (before or [made])[0]", "first = made"),
    ),
    "overlap of data not noticed": (
        Edit(
            RELEASES,
            "near[data] = mine is None or others is None or mine.meets(others)",
            "near[data] = False",
        ),
    ),
    "ledger's chain not checked": (
        Edit(RELEASES, "if head not in (_head(lines), _head(lines[:-1])):", "if False:"),
    ),
    "erased ledger not noticed": (
        Edit(RELEASES, "if SECRET in self._memory or _page(0) in self._memory:", "if False:"),
    ),
    "another set of one session released": (
        Edit(
            RELEASES,
            "        if self.possible or not before.possible:",
            "        if False:",
        ),
    ),
    "ledger's chain without the link before": (
        Edit(RELEASES, "hashlib.sha256(link + line).digest()", "hashlib.sha256(line).digest()"),
    ),
    "budget at the newest plan's delta": (
        Edit(RELEASES, "delta = first.delta if", "delta = made.delta if"),
    ),
    "exact after noise refused for the same data only": (
        Edit(
            RELEASES,
            "not all(one.is_exact for one in near):",
            "any(not one.is_exact and one.data == made.data for one in near):",
        ),
    ),
    "scores counted for each plan where none is pinned": (
        Edit(
            "packages/catchment-fleet/src/catchment_fleet/apps/guard.py",
            'key = f"scored/{self.workflow}" if pinned else "scored"',
            'key = f"scored/{self.workflow}"',
        ),
    ),
    "an upload counts once it is opened": (
        Edit(
            RELEASES,
            "            if near[one.data] and not (made.session",
            "            if near[one.data] and not one.possible and not (made.session",
        ),
    ),
    "units by what a plan reads": (
        Edit(
            "packages/catchment-fleet/src/catchment_fleet/apps/node.py",
            "units = ALL if self._own is None else lambda: self._units",
            'units = f"{self.file.fingerprint}"',
        ),
        Edit(
            RELEASES,
            "mine.meets(others)",
            "any(a.digest == b.digest for a in mine.pieces for b in others.pieces)",
        ),
    ),
    "an upload entered after it has left": (
        Edit(
            CLIENT,
            '        side.book["update"] = told\n        side.book.note("update", content)\n',
            '        side.book["update"] = told\n',
        ),
        Edit(
            CLIENT,
            "        ready, content = _mask(side, made, present, told)\n",
            "        ready, content = _mask(side, made, present, told)\n"
            '        side.book.note("update", content)\n',
        ),
    ),
    "a server asks any number of misfitting plans": (
        Edit(
            "packages/catchment-fleet/src/catchment_fleet/apps/guard.py",
            "if self.plan not in known and len(known) >= self.policy.misfits:",
            "if False:",
        ),
    ),
    "letters built before they are compared": (
        Edit(
            "packages/catchment/src/catchment/federation/workflow.py",
            " or (learning and not of.has(sent, of.adapt is not None))",
            "",
        ),
    ),
}
_SOLVE = {
    "errors of weighted rows by their number": (
        Edit(
            "packages/catchment/src/catchment/readout/solve.py",
            "mean = mean / statistics.weight - ",
            "mean = mean / statistics.n_rows - ",
        ),
    ),
    "mean error of weighted rows counted by their number": (
        Edit(
            "packages/catchment/src/catchment/readout/solve.py",
            "+ statistics.weight * mean**2)",
            "+ statistics.n_rows * mean**2)",
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
            DP + "noise.py",
            "    most = square_steps(bound, step)\n",
            "    bound *= 1.05\n    most = square_steps(bound, step)\n",
        ),
        Edit(
            DP + "noise.py",
            "    longest, length = bound * (1 - MARGIN), float(np.linalg.norm(vector))\n",
            "    longest, length = 1.05 * bound, float(np.linalg.norm(vector))\n",
        ),
    ),
    "releases not composed": (
        Edit(
            DP + "noise.py",
            "needed = enough * math.sqrt(self.releases)",
            "needed = enough",
        ),
    ),
    "colluders ignored": (
        Edit(
            DP + "noise.py",
            "n_parties = self.min_clients - self.n_colluding if self.distributed else 1",
            "n_parties = self.min_clients if self.distributed else 1",
        ),
    ),
    "budget slack of 5 %": (
        Edit(
            DP + "budget.py",
            "max(after) > self.epsilon * (1 + TOLERANCE)",
            "max(after) > self.epsilon * (1.05 + TOLERANCE)",
        ),
    ),
    "budget forgets": (
        Edit(
            DP + "budget.py",
            "self._epsilon(spent + cost for spent in costs)",
            "self._epsilon(cost for spent in costs)",
        ),
    ),
    "noise drawn anew for one session": (
        Edit(
            DP + "noise.py",
            "words = KeyedWords(context.ledger.secret(json.dumps(told).encode()))",
            "words = None",
        ),
    ),
    "one noise for all sessions": (
        Edit(
            DP + "noise.py",
            '["noise", context.plan, context.round, context.session, vector]',
            '["noise", context.plan, context.round]',
        ),
    ),
    "noise not charged to the client's ledger": (
        Edit(
            DP + "noise.py",
            "cost = self.amount(whole=True).cost if self.distributed else Cost()",
            "cost = Cost()",
        ),
    ),
    "a client counts as often as it says": (
        Edit(
            DP + "noise.py",
            "if context.client and clipped.n_clients != 1:",
            "if False:",
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
    "DP-FTRL divides by fewer clients": (
        Edit(FTRL, "np.divide(one, self.clients, ", "np.divide(one, max(self.clients - 1, 1), "),
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
        Edit(LEARN + "own_readouts.py", "(shared, *path(whole - part))", "(shared, *path(whole))"),
    ),
}

_DATA = {
    "threshold of anomalies by rows that were learned from": (
        Edit(LEARN + "anomaly.py", "begin = first if self.calibration else 0.0", "begin = 0.0"),
    ),
    "a window after a gap forgets where it starts": (
        Edit(PREPARING, "segment.start + start, silent)", "start, silent)"),
    ),
    "durations of windows by the mean interval": (
        Edit(PREPARING, "np.median(np.diff(recording.times))", "np.mean(np.diff(recording.times))"),
    ),
    "folds ignore the seed of the plan": (
        Edit(RUNNING, "order = seeded_generator(seed)", "order = seeded_generator(0)"),
    ),
    "last week's model readable by everybody": (
        Edit(
            RUNNING,
            "(store.folder / MODEL).read_bytes(), mode=PRIVATE)",
            "(store.folder / MODEL).read_bytes())",
        ),
    ),
}

_EQUIVALENT: dict[str, str] = {}


def _all(faults: Mapping[str, tuple[Edit, ...]], patterns: tuple[str, ...]) -> tuple[Mutant, ...]:
    tests = found(patterns)
    return tuple(
        Mutant(name, edits, tests, _EQUIVALENT.get(name, "")) for name, edits in faults.items()
    )


NAMED: tuple[Mutant, ...] = (
    *_all(_SUMS, SUMS),
    *_all(_LEDGER, LEDGER),
    *_all(_NOISE, NOISE),
    *_all(_PARTIAL, PARTIAL),
    *_all(_PERSONAL, PERSONAL),
    *_all(_SOLVE, SOLVE),
    *_all(_DATA, DATA),
)

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from catchment import Array, Booleans
from catchment.data import ACTIVITIES, CHANNELS, Recording, synthetic_wearables, wearable_user


def labels_of(windows: list[Recording]) -> Array:
    return np.array([window.y for window in windows])


def test_shapes_names_and_labels() -> None:
    users = synthetic_wearables(n_users=3, windows_per_user=8, steps=50)
    assert list(users) == ["user-000", "user-001", "user-002"]
    for windows in users.values():
        assert len(windows) == 8
        for window in windows:
            assert window.u.shape == (50, len(CHANNELS))
            assert window.y is not None
            assert sorted(window.y) == [0.0] * (len(ACTIVITIES) - 1) + [1.0]
            assert window.per_step is False


def test_a_person_depends_on_seed_and_number_only() -> None:
    few = synthetic_wearables(n_users=2, seed=7, windows_per_user=3)
    many = synthetic_wearables(n_users=4, seed=7, windows_per_user=6)
    for name, windows in few.items():
        for a, b in zip(windows, many[name], strict=False):
            np.testing.assert_array_equal(a.u, b.u)
    alone = wearable_user(7, 1, windows_per_user=3)
    np.testing.assert_array_equal(alone[2].u, few["user-001"][2].u)
    assert not np.allclose(alone[0].u, few["user-000"][0].u)
    assert not np.allclose(alone[0].u, wearable_user(8, 1, windows_per_user=1)[0].u)


def test_sitting_and_standing_feel_gravity_and_little_else() -> None:
    still = [ACTIVITIES.index("sitting"), ACTIVITIES.index("standing")]
    windows = [
        window
        for windows in synthetic_wearables(n_users=6).values()
        for window in windows
        if window.y is not None and int(window.y.argmax()) in still
    ]
    gravity = [float(np.linalg.norm(window.u[:, :3].mean(axis=0))) for window in windows]
    assert len(gravity) > 10
    # A rotation keeps the length of the gravity vector, whatever the orientation of the device.
    np.testing.assert_allclose(gravity, 1.0, atol=0.05)


def test_people_do_different_things() -> None:
    users = synthetic_wearables(n_users=6, windows_per_user=60)
    shares = np.array([labels_of(windows).mean(axis=0) for windows in users.values()])
    assert (shares.sum(axis=0) > 0).all()
    assert shares.std(axis=0).mean() > 0.05


def reservoir_mean_and_std(windows: Array) -> Array:
    """Return pooled states (B, 2 N) of a small reservoir written out by hand."""
    rng = np.random.default_rng(0)
    N = 100
    W = rng.uniform(-1, 1, (N, N)) * (rng.random((N, N)) < 0.1)
    W *= 0.9 / np.abs(np.linalg.eigvals(W)).max()
    W_in, b = rng.uniform(-0.5, 0.5, (N, windows.shape[2])), rng.uniform(-0.2, 0.2, N)
    x = np.zeros((len(windows), N))
    states = []
    for t in range(windows.shape[1]):
        x = 0.7 * x + 0.3 * np.tanh(windows[:, t] @ W_in.T + x @ W.T + b)
        states.append(x)
    return np.concatenate([np.mean(states, axis=0), np.std(states, axis=0)], axis=1)


def mean_accuracy(z: Array, y: Array, train: Booleans, test: Booleans) -> float:
    predicted = Ridge(alpha=0.1).fit(z[train], y[train]).predict(z[test])
    return float((predicted.argmax(axis=1) == y[test].argmax(axis=1)).mean())


def test_difficulty_tells_methods_apart() -> None:
    users = synthetic_wearables(n_users=24)
    u = np.array([window.u for windows in users.values() for window in windows])
    y = np.concatenate([labels_of(windows) for windows in users.values()])
    subject = np.repeat(np.arange(24), 40)
    train, test = subject < 12, subject >= 12
    u = (u - u[train].mean(axis=(0, 1))) / u[train].std(axis=(0, 1))

    z_mean = u.mean(axis=1)
    z_mean_std = np.concatenate([z_mean, u.std(axis=1)], axis=1)
    z = reservoir_mean_and_std(u)
    by_mean = mean_accuracy(z_mean, y, train, test)
    by_mean_std = mean_accuracy(z_mean_std, y, train, test)
    federated = mean_accuracy(z, y, train, test)
    local = np.mean([mean_accuracy(z, y, subject == k, test) for k in range(12)])

    assert by_mean < 0.5
    assert by_mean + 0.05 < by_mean_std
    assert by_mean_std + 0.15 < federated < 0.99
    assert local + 0.2 < federated


@pytest.mark.parametrize("wrong", [{"n_users": 0}, {"windows_per_user": 0}, {"steps": 0}])
def test_counts_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        synthetic_wearables(**wrong)

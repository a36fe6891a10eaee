#!/usr/bin/env python3
"""Writes src/base/paired_golden.txt, for src/base/paired_test.cc: SciPy's and NumPy's answers on random samples.

    make_statistics_goldens.py > src/base/paired_golden.txt
"""
import itertools
import math

import numpy as np
import scipy
from scipy import stats

rng = np.random.default_rng(18)


def words(*values):
    return " ".join(repr(float(v)) for v in values)


def section(name, rows):
    print(name)
    print(len(rows))
    print("\n".join(rows))


def student():
    rows = []
    for freedom in (1, 2, 3, 4.5, 11, 59, 499, 1e5):
        for p in (1e-12, 1.7e-4, 0.005, 0.025, 0.3, 0.5, 0.7, 0.975, 0.9999):
            t = stats.t.ppf(p, freedom)
            rows.append(words(freedom, p, t, stats.t.cdf(t, freedom)))
        for t in (-1e4, -3.3, -0.01, 0, 1e-9, 0.4, 5.5):
            p = stats.t.cdf(t, freedom)
            rows.append(words(freedom, p, t, p))
    section("student", rows)


def trimmed():
    rows = []
    for n in (1, 2, 3, 4, 5, 7, 8, 31, 100):
        x = rng.lognormal(size=n)
        rows.append(words(stats.trim_mean(x, 0.25), *x))
    section("interquartile_mean", rows)


def differences(n, kind):
    x = rng.normal(0.3, 1, size=n)
    if kind == "ties":
        x = np.round(x * 2 + 0.25) / 2
        x[x == 0] = 0.5
    if kind == "zeros":
        x = np.round(x * 2) / 2
    if kind == "skewed":
        x = np.exp(x) - 1.2
    return x


def signed_rank():
    rows = []
    sizes = (5, 6, 7, 12, 13, 25, 49, 50, 51, 52, 81, 200)
    for n, kind in itertools.product(sizes, ("normal", "skewed", "ties", "zeros")):
        x = differences(n, kind)
        if kind in ("ties", "zeros") and 13 < n <= 50:
            continue  # SciPy draws permutations there
        if n > 50:
            method = "asymptotic"
        elif kind in ("ties", "zeros"):
            method = stats.PermutationMethod(n_resamples=2**13)  # all of them
        else:
            method = "exact"
        p = stats.wilcoxon(x, zero_method="pratt", method=method).pvalue
        above = stats.wilcoxon(x, zero_method="pratt", alternative="greater", method="asymptotic").statistic
        rows.append(words(p, above, *x))
    section("signed_rank", rows)


def bootstrap():
    """Clusters of unequal size: mean, interval at the shares of paired.h, standard error; 400,000 resamples."""
    rows = []
    for clusters, most in ((5, 1), (12, 1), (12, 9), (60, 4), (300, 1)):
        sizes = rng.integers(1, most + 1, size=clusters)
        sums, counts, flat = [], [], []
        for c, size in enumerate(sizes):
            x = rng.normal(0.2, 1) + 0.3 * rng.lognormal(size=size)
            sums.append(x.sum())
            counts.append(size)
            flat += [v for value in x for v in (c, value)]
        sums, counts = np.array(sums), np.array(counts)
        means = []
        for _ in range(40):
            drawn = rng.integers(0, clusters, size=(10_000, clusters))
            means.append(sums[drawn].sum(1) / counts[drawn].sum(1))
        means = np.concatenate(means)
        expanded = math.sqrt(clusters / (clusters - 1))
        share = stats.norm.cdf(-expanded * stats.t.ppf(0.975, clusters - 1))
        low, high = np.quantile(means, [share, 1 - share])
        if most == 1:  # SciPy's own percentile bootstrap, at the same shares
            theirs = stats.bootstrap((sums,), np.mean, method="percentile", confidence_level=1 - 2 * share,
                                     n_resamples=100_000, rng=rng).confidence_interval
            assert abs(theirs.low - low) < 0.03 * (high - low), (theirs, low, high)
            assert abs(theirs.high - high) < 0.03 * (high - low), (theirs, low, high)
        rows.append(words(sums.sum() / counts.sum(), low, high, means.std() * expanded, *flat))
    section("bootstrap", rows)


print(f"# Made by bench/sim/make_statistics_goldens.py, NumPy {np.__version__}, SciPy {scipy.__version__}. "
      "Sections: name, rows.")
student()
trimmed()
signed_rank()
bootstrap()

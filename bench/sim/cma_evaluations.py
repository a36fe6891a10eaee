#!/usr/bin/env python3
"""How many evaluations the `cma` package needs, for src/sim/cma_es_test.cc: medians of 51 runs, and how many succeed.

    cma_evaluations.py
"""
import math
import statistics

import cma
import numpy as np


def sphere(x):
    return float(np.sum(np.square(x)))


def ellipsoid(x):
    return float(sum(10 ** (6 * i / (len(x) - 1)) * v * v for i, v in enumerate(x)))


def rosenbrock(x):
    x = np.asarray(x)
    return float(np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))


def rastrigin(x):
    return float(10 * len(x) + np.sum(np.square(x) - 10 * np.cos(2 * math.pi * np.asarray(x))))


print(f"cma {cma.__version__}")
CASES = ((sphere, 10, 1.0, 0.5, 0), (ellipsoid, 8, 1.0, 0.5, 0), (rosenbrock, 6, 0.0, 0.3, 0),
         (rastrigin, 4, 2.0, 2.0, 100))
for f, n, start, sigma, population in CASES:
    counts = []
    for seed in range(1, 52):
        options = {"verbose": -9, "seed": seed, "ftarget": 1e-10, "maxfevals": 100000}
        if population:
            options["popsize"] = population
        es = cma.CMAEvolutionStrategy(n * [start], sigma, options)
        es.optimize(f)
        if es.result.fbest <= 1e-10:
            counts.append(es.result.evaluations)
    print(f.__name__, n, "median", statistics.median(counts), "of", len(counts), "of 51")

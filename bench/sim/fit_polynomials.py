#!/usr/bin/env python3
"""Fits the polynomials of src/sim/math-inl.h for floats (NumPy is needed) and prints them with their greatest errors.

The error that is made smallest is that of the function, relative to it, by Lawson's weights (C. L. Lawson, 1961). How
accurate the functions are with their roundings is tested in src/sim/math_test.cc.
"""
import numpy as np

QUARTER = np.pi / 4 * 1.001

# name, the remainder that the polynomial stands for, its argument, its factor in the function, function, range, terms
FITS = [
    ("sin", lambda x: (np.sin(x) / x - 1) / x**2, lambda x: x**2, lambda x: x**3, np.sin, (1e-2, QUARTER), 3),
    ("cos", lambda x: (np.cos(x) - 1 + x**2 / 2) / x**4, lambda x: x**2, lambda x: x**4, np.cos, (3e-2, QUARTER), 3),
    ("exp", lambda x: (np.exp(x) - 1 - x) / x**2, lambda x: x, lambda x: x**2, np.exp, (-0.348, 0.348), 5),
    ("atan", lambda x: (np.arctan(x) / x - 1) / x**2, lambda x: x**2, lambda x: x**3, np.arctan, (2e-2, 1.0), 8),
    ("log", lambda x: (np.log1p(x) - x + x**2 / 2) / x**3, lambda x: x, lambda x: x**3, np.log1p, (-0.2930, 0.4143), 9),
]


def fit(target, argument, factor, function, bounds, terms):
    x = np.cos(np.linspace(0, np.pi, 4001)).astype(np.longdouble)
    x = (x * (bounds[1] - bounds[0]) + bounds[0] + bounds[1]) / 2
    x = x[np.abs(x) > 1e-2]
    scale = np.abs(factor(x) / function(x))
    matrix = np.vander(argument(x), terms, increasing=True)
    weights = np.ones_like(x) / len(x)
    best = None
    for _ in range(300):
        rows = (np.sqrt(weights) * scale)[:, None]
        right = (target(x)[:, None] * rows)[:, 0].astype(float)
        columns = np.linalg.lstsq((matrix * rows).astype(float), right, rcond=None)[0]
        error = np.abs((matrix @ columns - target(x)) * scale)
        if best is None or error.max() < best[0]:
            best = (error.max(), columns)
        weights = weights * error
        weights = weights / weights.sum()
    return best


for name, target, argument, factor, function, bounds, terms in FITS:
    error, coefficients = fit(target, argument, factor, function, bounds, terms)
    print(f"{name}: greatest relative error {error:.1e}: " + ", ".join(f"{c:.9e}" for c in coefficients))

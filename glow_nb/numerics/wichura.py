"""The coefficients of Wichura's algorithm AS 241 (Applied Statistics 37, 1988).

They give the inverse of the normal distribution, and so the inverse error function: rational
functions of a quarter of the squared argument in the middle, and of the root of the logarithm of
half of what is missing to 1 outside. Their error is less than the rounding of ``float64``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """A quotient of two polynomials, the coefficients of the highest powers first.

    Attributes:
        origin: The number that is first subtracted from the argument.
        over: Coefficients of the numerator.
        under: Coefficients of the denominator, without the last one, which is 1.
    """

    origin: float
    over: tuple[float, ...]
    under: tuple[float, ...]


MIDDLE = Ratio(
    0.0,
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
    (5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
     5394.1960214247511077, 687.1870074920579083, 42.313330701600911252),
)  # fmt: skip
OUTSIDE = Ratio(
    1.6,
    (7.7454501427834140764e-4, 2.27238449892691845833e-2, 0.24178072517745061177,
     1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055,
     4.6303378461565452959, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.475938084995344946e-4, 1.51986665636164571966e-2,
     0.14810397642748007459, 0.68976733498510000455, 1.6763848301838038494,
     2.05319162663775882187),
)  # fmt: skip
FAR_OUTSIDE = Ratio(
    5.0,
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.2426609473880784386e-3,
     2.65321895265761230930e-2, 0.29656057182850489123, 1.7848265399172913358,
     5.4637849111641143699, 6.6579046435011037772),
    (2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5,
     7.868691311456132591e-4, 1.48753612908506148525e-2, 0.13692988092273580531,
     0.59983220655588793769),
)  # fmt: skip
MIDDLE_SIZE, MIDDLE_RADIUS, FAR = 0.85, 0.180625, 5.0

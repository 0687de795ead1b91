"""The output of a sort as an expression of Dask's array query planning."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

from ._dask import ArrayExpr
from .tasks import ArrayRecipe, output_name


class SortedExpr(ArrayExpr):
    """One output array of a sort; the operands after the parameters are the input arrays."""

    _parameters = ["recipe", "output", "which", "prefix"]  # noqa: RUF012 - the base class declares it so

    @property
    def args(self) -> list[Any]:
        return self.operands[len(self._parameters) :]

    @cached_property
    def _recipe(self) -> ArrayRecipe:
        """The recipe with the inputs' present names: the optimiser renames them."""
        recipe: ArrayRecipe = self.operand("recipe")
        return replace(recipe, names=tuple(array._name for array in self.args))

    @cached_property
    def _name(self) -> str:
        return output_name(self.operand("prefix"), self._recipe.token, self.operand("which"), self.chunks)

    @cached_property
    def _meta(self) -> Any:
        return self.operand("output").meta

    @cached_property
    def chunks(self) -> tuple[tuple[float, ...], ...]:
        found: tuple[tuple[float, ...], ...] = self.operand("output").chunks
        return found

    def _layer(self) -> dict[Any, Any]:
        output = self._recipe.output(self._name, self.operand("which"), self.chunks)
        return {**self._recipe.stages(), **output}

"""JSON objects that leave out what there is not."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, SerializerFunctionWrapHandler, model_serializer


class Sparse(BaseModel):
    """Leaves out what is None, where clients expect a missing key rather than null.

    always: fields for which they expect null.
    """

    always: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _without_none(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {
            name: value
            for name, value in serialize(self).items()
            if value is not None or name in self.always
        }

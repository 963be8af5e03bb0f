"""`tf.saved_model.Builder`: a folder that TensorFlow and TensorFlow Serving load.

It holds what computes the outputs of the signatures, with variables as constants: it
serves, and is not trained further. `tf.train.Saver` keeps what is.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kit.checkpoint.files import replace_file
from kit.protobuf_wire import block
from kit.tf1.saved_model.inference_graph import inference_graph
from kit.tf1.saved_model.signature_constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY
from kit.tf1.saved_model.signatures import predict_signature_def
from kit.tf1.saved_model.tag_constants import SERVING
from kit.tf1.summary.messages import message

_FILE = "saved_model.pb"


class SavedModelBuilder:
    """Writes one graph, and signatures of it, to a new folder.

    Raises `AssertionError` for a folder that is not empty.
    """

    def __init__(self, export_dir: str | os.PathLike[str]) -> None:
        self._folder = Path(os.fsdecode(export_dir))
        if self._folder.is_dir() and any(self._folder.iterdir()):
            raise AssertionError(
                f"Export directory {self._folder} already exists, and isn't empty. "
                f"Please choose a different export directory, or delete all the "
                f"contents of the specified directory."
            )
        self._graphs: list[Any] = []

    def add_meta_graph_and_variables(
        self,
        sess: Any,
        tags: Iterable[str],
        signature_def_map: Mapping[str, Any] | None = None,
        assets_collection: Any = None,
        legacy_init_op: Any = None,
        clear_devices: bool = False,
        main_op: Any = None,
        strip_default_attrs: bool = False,
        saver: Any = None,
    ) -> None:
        """Take what the outputs of the signatures need, with the values of `sess`.

        Raises `ValueError` without signatures, and for assets and operations that run
        when the model is loaded; `UnimplementedError` for an operation that has no form
        there.
        """
        if self._graphs:
            raise AssertionError(
                "Graph state including variables and assets has already been saved. "
                "Please invoke `add_meta_graph()` instead."
            )
        if not signature_def_map:
            raise ValueError(
                "signature_def_map is needed: its outputs say what to keep."
            )
        if assets_collection or legacy_init_op is not None or main_op is not None:
            raise ValueError(
                "files and operations that a model needs when it is loaded are not "
                "written; leave assets_collection, legacy_init_op and main_op out."
            )
        infos = [
            info
            for signature in signature_def_map.values()
            for held in (signature.inputs, signature.outputs)
            for info in held.values()
        ]
        tensors = [sess.graph.get_tensor_by_name(info.name) for info in infos]
        made = message("MetaGraphDef")()
        made.graph_def.CopyFrom(inference_graph(sess, tensors))
        made.meta_info_def.tags.extend(tags)
        made.meta_info_def.stripped_default_attrs = bool(strip_default_attrs)
        made.meta_info_def.tensorflow_version = "1.15.5"  # whose operations they are
        for name, signature in signature_def_map.items():
            made.signature_def[name].CopyFrom(signature)
        self._graphs.append(made)

    def save(self, as_text: bool = False) -> bytes:
        """Write the folder and return the path of its file.

        Raises `ValueError` for a text, which is not written.
        """
        if as_text:
            raise ValueError("as_text is not taken; leave it out.")
        data = b"\x08\x01"  # the version of the format
        for meta_graph in self._graphs:
            body = meta_graph.SerializeToString()
            data += block(2, body)
        path = self._folder / _FILE
        self._folder.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
        return os.fsencode(path)


def simple_save(
    session: Any,
    export_dir: str | os.PathLike[str],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    legacy_init_op: Any = None,
) -> None:
    """Write a SavedModel that predicts outputs from inputs, both tensors by name."""
    builder = SavedModelBuilder(export_dir)
    signature = predict_signature_def(inputs, outputs)
    builder.add_meta_graph_and_variables(
        session,
        [SERVING],
        {DEFAULT_SERVING_SIGNATURE_DEF_KEY: signature},
        legacy_init_op=legacy_init_op,
    )
    builder.save()

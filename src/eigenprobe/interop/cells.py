"""Eigenmaps of single cells, in place: ``adata.obsm[use_rep] (n, d)`` -> ``adata.obsm[key_added] (n, k)``.

Neighbours that scanpy has found, ``adata.obsp["distances"] (n, n)`` sparse, are the graph where they are asked for.
"""

from typing import Any

import numpy as np

from ..errors import InputError
from ..estimators import OptimalApproximationEigenmaps
from ..estimators.precomputed import nearest_entries


def eigenmaps(
    adata: Any,
    *,
    use_rep: str | None = None,
    neighbors_key: str | None = None,
    key_added: str = "X_eigenprobe",
    n_components: int = 15,
    random_state: int = 0,
    copy: bool = False,
    **options: Any,
) -> Any:
    """Embed the cells of an AnnData object, as scanpy's tools do: nothing is returned unless ``copy``.

    Parameters
    ----------
    use_rep
        A key of ``adata.obsm``, or ``"X"``. By default ``X_pca`` where it is there, else ``X``.
    neighbors_key
        Of ``adata.uns``, where ``scanpy.pp.neighbors`` left its parameters (``"neighbors"`` unless it was told
        otherwise): its neighbours and their distances are taken as they are, and not searched.
    key_added
        The coordinates go to ``adata.obsm[key_added]``; eigenvalues and parameters to ``adata.uns`` under the same key
        without its ``X_``. ``scanpy.pp.neighbors(adata, use_rep=key_added)`` goes on from there.
    n_components, random_state, options
        Of `OptimalApproximationEigenmaps`.
    """
    adata = adata.copy() if copy else adata
    chosen = ("X_pca" if "X_pca" in adata.obsm else "X") if use_rep is None else use_rep
    if chosen != "X" and chosen not in adata.obsm:
        known = ", ".join(["X", *adata.obsm.keys()])
        raise InputError(f"expected use_rep to be one of {known}, got {chosen!r}")
    rows = adata.X if chosen == "X" else adata.obsm[chosen]
    rows = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)
    neighbors = None if neighbors_key is None else _neighbours(adata, neighbors_key, options)
    estimator = OptimalApproximationEigenmaps(n_components, random_state=random_state, **options)
    adata.obsm[key_added] = estimator.fit(rows, neighbors=neighbors).embedding_
    params = {"use_rep": chosen, "n_components": n_components, "random_state": random_state, **options}
    if neighbors_key is not None:
        params["neighbors_key"] = neighbors_key
    adata.uns[key_added.removeprefix("X_")] = {"params": params, "eigenvalues": estimator.eigenvalues_}
    return adata if copy else None


def _neighbours(adata: Any, key: str, options: dict[str, Any]) -> tuple[Any, Any]:
    """Indices and distances ``(n, k)`` that scanpy stored, as many as every cell has; their metric goes to options."""
    if key not in adata.uns:
        known = ", ".join(adata.uns) or "nothing"
        raise InputError(f"expected neighbors_key to be a key of adata.uns ({known}), got {key!r}")
    facts = adata.uns[key]
    place = facts.get("distances_key", "distances")
    if place not in adata.obsp:
        raise InputError(f"adata.obsp has no {place!r}, which adata.uns[{key!r}] names: run scanpy.pp.neighbors again")
    distances = adata.obsp[place].tocsr()
    fewest = int(np.diff(distances.indptr).min())
    if fewest < 2:
        raise InputError(f"adata.obsp[{place!r}] must hold at least 2 neighbours of every cell, got {fewest}")
    options.setdefault("metric", facts.get("params", {}).get("metric", "euclidean"))
    options.setdefault("n_neighbors", fewest)
    return nearest_entries(distances, fewest, own=True)

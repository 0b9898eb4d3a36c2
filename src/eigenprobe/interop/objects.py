"""Objects of other libraries with our operators or coordinates inside, or with values on them to
draw.

    equip         pyFM's TriMesh, GeomFuM's shapes: L, M, lambda (k,), V (n, k) with V^T M V = I, in
                  place
    with_scalars  trimesh, Open3D, PyVista: a copy that carries f (n,), as colours or as point data
    eigenmaps     AnnData, in place: adata.obsm[use_rep] (n, d) -> adata.obsm[key_added] (n, k);
                  where they are asked for, neighbours that scanpy has found,
                  adata.obsp["distances"] (n, n) sparse, are the graph
"""

import copy
from typing import Any

import numpy as np

from ..apps import pseudotime
from ..decomposition import decompose
from ..errors import InputError, extra, warn
from ..host.validation import as_array
from ..manifold import OptimalApproximationEigenmaps
from ..manifold.precomputed import nearest_entries
from ..operators import matrices
from ..points import Array, points_and_faces
from ..smoothers.prepared import Prepared

SCANPY_NEIGHBORS = 15  # scanpy's own number: Leiden finds kinds of cells better than with 12


def eigenmaps(
    adata: Any,
    n_comps: int = 8,
    *,
    n_pcs: int | None = None,
    use_rep: str | None = None,
    layer: str | None = None,
    neighbors_key: str | None = None,
    key_added: str = "X_eigenprobe",
    root: object = None,
    with_map: bool = False,
    random_state: int = 0,
    copy: bool = False,
    **options: Any,
) -> Any:
    """Embed the cells of an AnnData object, in place, as scanpy's tools do.

    Parameters
    ----------
    adata
        The cells, ``(n, genes)``.
    n_comps
        The number of coordinates, 8 unless given, as in `Eigenmaps`; scanpy's diffusion maps have
        15.
    n_pcs
        Columns of the representation that are used, all unless given.
    use_rep
        A key of ``adata.obsm``, or ``"X"``. By default ``X_pca`` where it is there, else ``X``.
    layer
        A key of ``adata.layers`` to be used instead.
    neighbors_key
        Of ``adata.uns``, where ``scanpy.pp.neighbors`` left its parameters (``"neighbors"`` unless
        another key was given to it): its neighbours and their distances are taken as they are, and
        not searched. A part of the cells (``adata[:300]``) has lost some of them: they are then
        searched again.
    key_added
        The coordinates go to ``adata.obsm[key_added]``; eigenvalues and parameters to ``adata.uns``
        under the same key without its ``X_``. The graph goes to ``adata.obsp``: find clusters on
        it, ``scanpy.tl.leiden(adata, neighbors_key="eigenprobe_neighbors")``. A new graph of the
        coordinates (``scanpy.pp.neighbors(adata, use_rep=key_added)``) falls into twice as many.
    root
        A cell, its number or its name: pseudotime from it (`apps.pseudotime`) goes to
        ``adata.obs``, under the key of ``adata.uns`` and ``_pseudotime``.
    with_map
        Whether the map of the cells (``layout_``) goes to ``adata.obsm``, under ``key_added`` and
        ``_map``.
    copy
        Whether a copy of the object gets the coordinates.
    random_state, options
        Of `Eigenmaps`; ``n_neighbors`` is 15 unless given, as in ``scanpy.pp.neighbors``.

    Returns
    -------
    Eigenmaps or AnnData
        The fitted estimator, which maps new cells (``transform``) and keeps the basis (``basis_``)
        for `apps`; with ``copy`` the copy.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> cells = np.random.default_rng(0).normal(size=(200, 20))
    >>> adata = SimpleNamespace(X=cells, obsm={}, uns={})  # or an anndata.AnnData
    >>> model = eigenmaps(adata, n_comps=3)
    >>> adata.obsm["X_eigenprobe"].shape
    (200, 3)
    """
    adata, n_comps = adata.copy() if copy else adata, options.pop("n_components", n_comps)
    rows, chosen = _representation(adata, use_rep, layer)
    rows = rows if n_pcs is None else rows[:, :n_pcs]
    neighbors = None if neighbors_key is None else _neighbours(adata, neighbors_key, options)
    options.setdefault("n_neighbors", SCANPY_NEIGHBORS)
    estimator = OptimalApproximationEigenmaps(n_comps, random_state=random_state, **options)
    adata.obsm[key_added] = estimator.fit(rows, neighbors=neighbors).embedding_
    params = {"use_rep": chosen, "n_comps": n_comps, "random_state": random_state, **options}
    params |= {"neighbors_key": neighbors_key, "n_pcs": n_pcs}
    params = {name: value for name, value in params.items() if value is not None}
    name = key_added.removeprefix("X_")
    adata.uns[name] = {"params": params, "eigenvalues": estimator.eigenvalues_}
    if hasattr(adata, "obsp"):
        key, about = f"{name}_connectivities", {"method": "eigenprobe", "use_rep": chosen}
        adata.obsp[key] = estimator.affinities_
        keys = dict.fromkeys(("connectivities_key", "distances_key"), key)
        adata.uns[f"{name}_neighbors"] = keys | {"params": about}
    if with_map:
        adata.obsm[f"{key_added}_map"] = estimator.layout_
    if root is not None:
        number: Any = root if hasattr(root, "__index__") else list(adata.obs_names).index(root)
        adata.obs[f"{name}_pseudotime"] = pseudotime(estimator.basis_, int(number))
    return adata if copy else estimator


def _representation(adata: Any, use_rep: str | None, layer: str | None) -> tuple[Array, str]:
    """The rows that are embedded, and the name of their place."""
    if layer is not None:
        if layer not in adata.layers:
            known = ", ".join(adata.layers.keys()) or "none"
            raise InputError(f"expected layer to be one of {known}, got {layer!r}")
        rows, chosen = adata.layers[layer], layer
    else:
        chosen = ("X_pca" if "X_pca" in adata.obsm else "X") if use_rep is None else use_rep
        if chosen != "X" and chosen not in adata.obsm:
            known = ", ".join(["X", *adata.obsm.keys()])
            raise InputError(f"expected use_rep to be one of {known}, got {chosen!r}")
        rows = adata.X if chosen == "X" else adata.obsm[chosen]
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows), chosen


def _neighbours(adata: Any, key: str, options: dict[str, Any]) -> tuple[Any, Any] | None:
    """Indices and distances ``(n, k)`` that scanpy stored, as many as every cell has; their metric
    goes to options. None of a part of the cells that lacks some of them."""
    if key not in adata.uns:
        known = ", ".join(adata.uns) or "nothing"
        raise InputError(f"expected neighbors_key to be a key of adata.uns ({known}), got {key!r}")
    facts = adata.uns[key]
    place = facts.get("distances_key", "distances")
    if place not in adata.obsp:
        raise InputError(
            f"adata.obsp has no {place!r}, which adata.uns[{key!r}] names: "
            "run scanpy.pp.neighbors again"
        )
    distances = adata.obsp[place].tocsr()
    counts = np.diff(distances.indptr)
    params, fewest, usual = facts.get("params", {}), int(counts.min()), int(counts.max())
    options.setdefault("metric", params.get("metric", "euclidean"))
    whole = int(params.get("n_neighbors", usual)) - 1  # scanpy counts the cell itself
    if fewest < 2 or 2 * fewest < whole:
        warn(
            f"adata.obsp[{place!r}] has {fewest} neighbours of some cells, a part of all: "
            "they are searched again"
        )
        options.setdefault("n_neighbors", min(max(whole, 2), len(counts) - 1))
        return None
    options.setdefault("n_neighbors", fewest)
    return nearest_entries(distances, fewest)


def spectrum(points: Any, k: int, **options: Any) -> tuple[Prepared, dict[str, Any]]:
    """What makes the basis of all points ``(n, d)``, and by pyFM's names their matrices and first
    ``k`` pairs.

    ``eigenvectors^T mass eigenvectors = I`` for a mass in length^dim. ``options`` are those of
    `decompose`.
    """
    basis = decompose(points, k, resolution="all", parts="all", **options)
    made, basis = basis.prepared(), basis.numpy()
    stiffness, mass = matrices(made.cloud, made.smoother)
    vectors = basis.normalized / np.sqrt(mass.diagonal())[:, None]
    found = {"stiffness": stiffness, "mass": mass}
    return made, found | {"eigenvalues": basis.eigenvalues, "eigenvectors": vectors}


def equip(shape: Any, k: int = 100, **options: Any) -> Any:
    """Put the basis and the matrices of its points into a shape of pyFM or GeomFuM.

    Parameters
    ----------
    shape
        A ``TriMesh`` of pyFM, which gets ``stiffness``, ``mass``, ``eigenvalues`` and
        ``eigenvectors``, or a shape of GeomFuM, which gets its ``laplacian`` and ``basis``. Its
        faces are kept and not used.
    k
        How many vectors.
    options
        ``neighbours`` and ``dimension`` of `decompose`.

    Returns
    -------
    object
        The same shape.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> points = np.random.default_rng(0).normal(size=(300, 3))
    >>> shape = SimpleNamespace(vertices=points, eigenvectors=None)  # or a pyFM.mesh.TriMesh
    >>> equip(shape, k=5).eigenvectors.shape
    (300, 5)
    """
    fum, pyfm = hasattr(shape, "set_basis"), hasattr(shape, "eigenvectors")
    if not (fum or pyfm) or getattr(shape, "vertices", None) is None:
        raise InputError(
            f"expected a TriMesh of pyFM or a shape of GeomFuM, got {type(shape).__name__}"
        )
    _, found = spectrum(np.asarray(shape.vertices, float), k, **options)
    if fum:
        gs, bases = extra("gsops.backend"), extra("geomfum.basis")
        stiffness, mass, values, vectors = found.values()
        sparse = tuple(gs.sparse.from_scipy_csc(each.tocsc()) for each in (stiffness, mass))
        basis = bases.LaplaceEigenBasis(shape, gs.asarray(values), gs.asarray(vectors))
        shape.laplacian.find(lambda _: sparse, recompute=True)
        options = {"laplacian_spectrum_finder": lambda *_, **__: basis, "recompute": True}
        shape.laplacian.find_spectrum(**options)
        return shape
    for name, value in found.items():
        setattr(shape, name, value)
    return shape


def with_scalars(
    shape: Any, values: Array, *, name: str = "eigenprobe", colours: str = "RdBu_r"
) -> Any:
    """A copy of a mesh or cloud of trimesh, Open3D or PyVista that carries a function.

    Parameters
    ----------
    shape
        With ``n`` points.
    values
        The function ``(n,)``.
    name
        Of the point data that PyVista gets and draws itself.
    colours
        The matplotlib map that colours the others, with 0 in its middle where the function has both
        signs.

    Returns
    -------
    object
        The copy.

    Examples
    --------
    >>> import trimesh
    >>> ball = trimesh.creation.icosphere(1)
    >>> with_scalars(ball, ball.vertices[:, 2]).visual.vertex_colors.shape
    (42, 4)
    """
    points, _ = points_and_faces(shape)
    f = as_array(values, float)
    if hasattr(points, "shape") and f.shape != (len(points),):
        raise InputError(f"expected values of shape ({len(points)},), got {f.shape}")
    if hasattr(shape, "point_data"):
        result = shape.copy()
        result.point_data[name] = f
        return result
    from matplotlib import colormaps

    low, high = float(f.min()), float(f.max())
    if low < 0 < high:
        low, high = -max(-low, high), max(-low, high)
    shades = colormaps[colours]((f - low) / max(high - low, np.finfo(float).tiny))  # (n, 4)
    if hasattr(shape, "visual"):
        result = shape.copy()
        result.visual.vertex_colors = (255 * shades).round().astype(np.uint8)
        return result
    places = [each for each in ("vertex_colors", "colors") if hasattr(shape, each)]
    if not places:
        raise InputError(
            f"expected a mesh or cloud of trimesh, Open3D or PyVista, got {type(shape).__name__}"
        )
    result = copy.deepcopy(shape)
    kind = type(getattr(result, places[0]))  # Open3D's own vector of numbers
    setattr(result, places[0], kind(np.ascontiguousarray(shades[:, :3])))
    return result

"""Handwritten digits: spectral coordinates, clusters in them, and new digits placed one by one."""

from __future__ import annotations

from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.metrics import normalized_mutual_info_score
from sklearn.neighbors import KNeighborsClassifier

import eigenprobe as ep


def main() -> None:
    X, y = load_digits(return_X_y=True)
    half = len(X) // 2
    emb = ep.Eigenmaps(n_components=10, solver="direct", random_state=0)
    fitted = emb.fit_transform(X[:half])
    found = KMeans(10, n_init=4, random_state=0).fit_predict(fitted)
    print(f"clusters against digits: NMI {normalized_mutual_info_score(y[:half], found):.3f}")
    accuracy = (
        KNeighborsClassifier(5).fit(fitted, y[:half]).score(emb.transform(X[half:]), y[half:])
    )
    print(f"unseen digits, nearest neighbours in the embedding: {accuracy:.3f}")


if __name__ == "__main__":
    main()

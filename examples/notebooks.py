"""Two tutorials as executed notebooks: this script writes shape.ipynb and embeddings.ipynb to the
current folder.
"""

import os
import sys

from nbclient import NotebookClient
from nbformat import write
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

SHAPE = [
    "# A shape\n\nA cloud of points becomes a basis: eigenvectors, eigenvalues and mass. No "
    "mesh is used.",
    "import eigenprobe as ep\n\n"
    "shape = ep.datasets.creature()  # an animal\n"
    "points, faces = shape.vertices, shape.faces  # the faces are only used for drawing\n"
    "basis = ep.decompose(points, k=20)\nbasis",
    "The first eigenfunctions, from slow to fast vibrations:",
    "basis.plot([1, 2, 3, 4, 5], faces=faces)",
    "A function on the points, here the height, is expressed by 20 numbers and rebuilt from them:",
    "height = points[:, 1]\nnumbers = basis.project(height)\nabs(height - "
    "basis.reconstruct(numbers)).max()",
    "How warm is every point some time after the first one was heated?",
    "from eigenprobe.viz import figures\n\nheat = ep.apps.heat_kernel(basis, 0, 0.1)\n"
    'figures.gallery([(points, faces)], ["heat"], values=[heat])',
]
EMBEDDINGS = [
    "# A table of embeddings\n\nEvery row is an image of a handwritten digit. Labels are "
    "only used for colours.",
    "from sklearn.datasets import load_digits\n\nimport eigenprobe as ep\n\n"
    "X, y = load_digits(return_X_y=True)\nmodel = ep.Eigenmaps(random_state=0).fit(X[:1000])\n"
    "model.embedding_.shape, model.eigenvalues_.round(2)",
    "The map puts similar images together:",
    "model.plot(y[:1000])",
    "Without labels, groups are found:",
    "model.plot()",
    "New images are placed among the fitted ones, each on its own:",
    "model.transform(X[1000:]).shape, model.place(X[1000:]).shape",
    "The nearest fitted image in the coordinates usually shows the same digit:",
    "from sklearn.neighbors import KNeighborsClassifier\n\n"
    "judge = KNeighborsClassifier(5).fit(model.embedding_, y[:1000])\n"
    "float((judge.predict(model.transform(X[1000:])) == y[1000:]).mean())",
]

for name, parts in (("shape", SHAPE), ("embeddings", EMBEDDINGS)):
    book = new_notebook()
    for number, text in enumerate(parts):
        cell = new_markdown_cell if number % 2 == 0 else new_code_cell
        book.cells.append(cell(text, id=f"{name}-{number}"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    NotebookClient(book, timeout=300, kernel_name="python3", record_timing=False).execute(
        env=environment
    )
    write(book, f"{name}.ipynb")
    print(f"wrote {name}.ipynb: {len(book.cells)} cells")

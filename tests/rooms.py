"""How the packages are divided: `python -m tests.rooms`, which needs the extra `dev`.

A room is a folder or module directly in a package, an arrow that something in one room imports something in another
one. That no arrows make a circle is a contract of `lint-imports`.
"""

from __future__ import annotations

from itertools import permutations

import grimp

ROOT = "int8tune"


def main() -> None:
    graph = grimp.build_graph(ROOT)
    packages = [package for package in sorted(graph.find_children(ROOT)) if graph.find_children(package)]
    for package in packages:
        rooms = sorted(graph.find_children(package))
        arrows = sum(
            graph.direct_import_exists(importer=a, imported=b, as_packages=True) for a, b in permutations(rooms, 2)
        )
        modules = len(graph.find_descendants(package))
        print(f"{package.removeprefix(ROOT + '.'):10}{modules:4} modules in {len(rooms):3} rooms, {arrows:4} arrows")


if __name__ == "__main__":
    main()

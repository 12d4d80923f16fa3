"""Charts as inline SVG: no script, no other file, colours by the classes of `report/document.css.j2`."""

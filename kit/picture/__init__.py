"""Pictures of a graph: what is computed on which task, and what moves between them.

Pure, from a graph to text in SVG or HTML; only `Picture.save` writes a file. No browser
and no other program is needed.

    reading from a graph to a scene
    scene   which boxes and lines there are       <- fold: limits the number of boxes
    grid    what is below and beside what         <- layout: where everything is
    lanes   which strip a task gets
    svg     the drawing, for light and for dark
"""

from kit.picture.picture import Picture as Picture
from kit.picture.picture import picture_of as picture_of

__all__ = ["Picture", "picture_of"]

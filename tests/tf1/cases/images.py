"""Images: colors, the middle, sizes that a run tells, boxes, and what files hold."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np

from tests.tf1.look import facts, run, tf

IMAGE = np.random.RandomState(0).uniform(size=(4, 5, 3)).astype(np.float32)
BYTES = (IMAGE * 255).astype(np.uint8)
BOXES = [[[0.1, 0.2, 0.7, 0.9], [-0.5, 0.5, 2.0, 0.5], [0.9, 0.0, 0.1, 1.0]]]
# 16 rows of 8 pixels, all of one color
JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABsSFBcUERsXFhceHBsgKEIrKCUlKFE6PTBCYFVlZF9V"
    "XVtqeJmBanGQc1tdhbWGkJ6jq62rZ4C8ybqmx5moq6T/2wBDARweHigjKE4rK06kbl1upKSkpKSk"
    "pKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKT/wAARCAAQAAgDASIA"
    "AhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAT/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/8QAFQEB"
    "AQAAAAAAAAAAAAAAAAAAAAX/xAAUEQEAAAAAAAAAAAAAAAAAAAAA/9oADAMBAAIRAxEAPwCMAV3/"
    "2Q=="
)


def png(pixels: Any) -> bytes:
    """Return the file of an image."""

    def part(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    height, width, depth = pixels.shape
    kind = {1: 0, 3: 2, 4: 6}[depth]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    return (
        b"\x89PNG\r\n\x1a\n"
        + part(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))
        + part(b"IDAT", zlib.compress(rows))
        + part(b"IEND", b"")
    )


def case_hue_and_saturation() -> Any:
    image, whole = tf.constant(IMAGE), tf.constant(BYTES)
    return [
        facts(tf.image.rgb_to_hsv(image)),
        facts(tf.image.hsv_to_rgb(image)),
        facts(tf.image.rgb_to_hsv(tf.constant([[[0.5, 0.5, 0.5], [0.0, 0.0, 0.0]]]))),
        run(tf.image.adjust_hue(image, 0.3)),
        run(tf.image.adjust_hue(image, -0.8)),
        run(tf.image.adjust_saturation(image, 0.3)),
        run(tf.image.adjust_saturation(image, 5.0)),
        run(tf.image.adjust_saturation(whole, 0.5)).dtype.name,
    ]


def case_gray() -> Any:
    gray = tf.image.rgb_to_grayscale(tf.constant(IMAGE))
    return [
        gray.shape.as_list(),
        run(gray),
        run(tf.image.grayscale_to_rgb(gray)),
    ]


def case_random_saturation_between_equal_bounds() -> Any:
    return tf.image.random_saturation(IMAGE, 0.5, 0.5)


def case_the_middle() -> Any:
    x = tf.placeholder(tf.float32, [None, None, 3])
    fed = tf.image.central_crop(x, 0.5)
    batch = tf.image.central_crop(tf.constant(IMAGE[None]), 0.6)
    return [batch.shape.as_list(), run(batch), run(fed, {x: IMAGE})]


def case_sizes_that_a_run_tells() -> Any:
    x = tf.placeholder(tf.float32, [None, None, 3])
    near = tf.image.ResizeMethod.NEAREST_NEIGHBOR
    made = [
        tf.image.resize_images(x, [3, 7]),
        tf.image.resize_images(x, [7, 2], align_corners=True),
        tf.image.resize_images(x, [3, 7], near),
        tf.image.resize_image_with_crop_or_pad(x, 2, 8),
    ]
    return [[tensor.shape.as_list(), run(tensor, {x: IMAGE})] for tensor in made]


def case_boxes() -> Any:
    draw, batch = tf.image.draw_bounding_boxes, tf.zeros([1, 8, 9, 3])
    drawn = draw(batch, BOXES)
    gray = draw(tf.zeros([1, 8, 9, 1]), [[[0.0, 0.0, 1.0, 1.0]]])
    return [drawn.shape.as_list(), run(drawn), run(gray)]


def case_part_by_lot(session: Any) -> Any:
    make = tf.image.sample_distorted_bounding_box
    begin, size, box = make(
        *([40, 60, 3], [[[0.2, 0.2, 0.8, 0.8]]]),
        min_object_covered=0.5,
        aspect_ratio_range=[0.8, 1.2],
        area_range=[0.2, 0.9],
    )
    statics = [
        [tensor.shape.as_list(), tensor.dtype.name] for tensor in (begin, size, box)
    ]
    result = [session.run([begin, size, box]) for _ in range(20)]
    fits = [
        bool(0.2 * 2400 <= s[0] * s[1] <= 0.9 * 2400)
        and 0 <= b[0] <= 40 - s[0]
        and 0 <= b[1] <= 60 - s[1]
        and bool(abs(x[0, 0, 0] * 40 - b[0]) < 1e-3)
        for b, s, x in result
    ]
    return [
        statics,
        all(fits),
        result[0][1][2],
        len({str(item) for item in result}) > 10,
    ]


def case_part_that_does_not_exist() -> Any:
    result = tf.image.sample_distorted_bounding_box(
        *([10, 20, 3], [[[0.0, 0.0, 1.0, 1.0]]]), min_object_covered=1.5, max_attempts=3
    )
    return run(result)


def case_part_without_boxes() -> Any:
    make, none = tf.image.sample_distorted_bounding_box, np.zeros([1, 0, 4], np.float32)
    return run(make([10, 20, 3], none))


def case_png() -> Any:
    decode = tf.image.decode_png
    both = np.concatenate([BYTES, BYTES[:, :, :1]], axis=2)
    return [
        facts(decode(tf.constant(png(BYTES)), channels=3)),
        facts(decode(png(BYTES[:, :, :1]))),
        facts(decode(png(both))),
        facts(decode(png(both), channels=3)),
        run(tf.image.decode_image(png(BYTES))),
        run(tf.image.decode_image(png(BYTES), dtype=tf.float32)),
        facts(tf.image.decode_jpeg(png(BYTES), channels=3)),
    ]


def case_jpeg() -> Any:
    made = []
    for channels, color in ((0, [199, 30, 91]), (1, [88]), (3, [199, 30, 91])):
        pixels = tf.image.decode_jpeg(JPEG, channels=channels)
        result = run(pixels)
        is_near = bool(np.abs(result - np.array(color, float)).max() <= 4)
        made.append([pixels.name, pixels.shape.as_list(), result.shape, is_near])
    return made


def case_no_image() -> Any:
    return run(tf.image.decode_jpeg(b"no image"))


CASES = {
    "random_hue_of_no_circle": lambda: tf.image.random_hue(IMAGE, 0.7),
    "the_middle_of_no_fraction": lambda: tf.image.central_crop(IMAGE, 0.0),
}

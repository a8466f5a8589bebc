// Texts of the scene that reach beyond it, and pairs of texts that cover each other.
() => {
  const frame = document.getElementById("scene").getBoundingClientRect();
  const texts = [...document.querySelectorAll("#scene text")].filter((text) => text.textContent && text.checkVisibility());
  const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
  const isOutside = ([, box]) => box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1;
  const cover = (one, other) =>
    Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1 &&
    Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 3;
  const pairs = boxes.flatMap(([text, box], index) =>
    boxes
      .slice(index + 1)
      .filter(([, other]) => cover(box, other))
      .map(([other]) => `${text} / ${other}`),
  );
  return [...boxes.filter(isOutside).map(([text]) => text), ...pairs];
};

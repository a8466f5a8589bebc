// Texts of the scene that reach beyond it.
() => {
  const frame = document.getElementById("scene").getBoundingClientRect();
  return [...document.querySelectorAll("#scene text")]
    .filter((text) => text.textContent)
    .filter((text) => {
      const box = text.getBoundingClientRect();
      return box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1;
    })
    .map((text) => text.textContent);
};

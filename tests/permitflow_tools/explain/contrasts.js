// Every text that is shown, with its contrast to what is behind it, as WCAG 2.2 defines it.
() => {
  const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
  const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const luminance = (rgb) => {
    const [red, green, blue] = rgb.slice(0, 3).map((value) => linear(value / 255));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const rgb = channels(getComputedStyle(at).backgroundColor);
      if (rgb.length === 3 || rgb[3] > 0.99) return rgb;
    }
    return [255, 255, 255];
  };
  const ignored = "script, style, option, :disabled, svg, .visually-hidden";
  const result = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim();
    const element = walker.currentNode.parentElement;
    if (!text || !element.checkVisibility() || element.closest(ignored)) continue;
    const both = [luminance(channels(getComputedStyle(element).color)), luminance(behind(element))];
    result.push([text, (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05)]);
  }
  return result;
};

// Where lanes, ends and arrows stand.  Data go to the right above, permits come back below.

const LANE_HEIGHT = 42;

function wideFrame(width) {
  const inside = 16;
  const gap = width < 960 ? 76 : 92;
  const lane = (width - 4 * inside - 2 * gap) / 3;
  const above = 60;
  const below = 188;
  const sender = inside;
  const middle = sender + lane + inside + gap;
  const receiver = middle + lane + gap + inside;
  const endWidth = lane + 2 * inside;
  const height = 264;
  const data = above + LANE_HEIGHT / 2;
  const permits = below + LANE_HEIGHT / 2;
  const vertical = [above + LANE_HEIGHT + 26, below - 28];
  return {
    lane,
    height,
    ends: [
      { name: "Sender", x: 0.75, y: 0.75, width: endWidth - 1.5, height: height - 1.5 },
      { name: "Receiver", x: width - endWidth + 0.75, y: 0.75, width: endWidth - 1.5, height: height - 1.5 },
    ],
    lanes: {
      waiting: { x: sender, y: above, height: LANE_HEIGHT, title: "waiting" },
      wire: { x: middle, y: above, height: LANE_HEIGHT, title: "data in flight" },
      inbox: { x: receiver, y: above, height: LANE_HEIGHT, title: "inbox" },
      permits: { x: sender, y: below, height: LANE_HEIGHT, title: "permits" },
      grants: { x: middle, y: below, height: LANE_HEIGHT, title: "permits in flight" },
      unreturned: { x: receiver, y: below, height: LANE_HEIGHT, title: "consumed, unreturned" },
    },
    consumed: { x: width - inside, y: 25 },
    arrows: [
      { name: "Send", actions: ["SendChunk", "SendBarrier", "SendWatermark"], from: [endWidth + 8, data], to: [middle - 8, data], label: [0, -12] },
      { name: "Deliver", actions: ["Deliver"], from: [middle + lane + 8, data], to: [width - endWidth - 8, data], label: [0, -12] },
      { name: "Consume", actions: ["Consume"], from: [receiver + lane / 2, vertical[0]], to: [receiver + lane / 2, vertical[1]], label: [38, 4] },
      { name: "return", actions: ["Flush"], isReturn: true, from: [width - endWidth - 8, permits], to: [middle + lane + 8, permits], label: [0, -12] },
      { name: "AddPermits", actions: ["AddPermits"], from: [middle - 8, permits], to: [endWidth + 8, permits], label: [0, -12] },
      { name: "takes permits", actions: ["SendChunk"], from: [sender + lane / 2, vertical[1]], to: [sender + lane / 2, vertical[0]], label: [52, 4] },
    ],
  };
}

/** On a telephone: data go down at the left, permits come up at the right, so that the whole circuit is in view. */
function narrowFrame(width) {
  const inside = 10;
  const gap = width < 340 ? 24 : 36; // room for an arrow
  const lane = (width - 2 * inside - gap) / 2;
  const [left, right] = [inside, inside + lane + gap];
  const height = 32;
  const [head, box] = [54, 114]; // from the top of an end to its lanes, and to its bottom
  const [sender, wires, receiver] = [head, 182, 268 + head];
  const at = (x, y, title) => ({ x, y, height, title });
  const [data, permits] = [left + lane / 2, right + lane - 18];
  const between = [left + lane + 4, right - 4];
  const ends = [
    { name: "Sender", x: 0.75, y: 0.75, width: width - 1.5, height: box },
    { name: "Receiver", x: 0.75, y: receiver - head, width: width - 1.5, height: box },
  ];
  const reach = { down: [box + 5, wires - 26], on: [wires + height + 26, receiver - head - 4] };
  return {
    lane,
    height: receiver - head + box + 1,
    ends,
    lanes: {
      waiting: at(left, sender, "waiting"),
      permits: at(right, sender, "permits"),
      wire: at(left, wires, "in flight"),
      grants: at(right, wires, "in flight"),
      inbox: at(left, receiver, "inbox"),
      unreturned: at(right, receiver, "unreturned"),
    },
    consumed: { x: width - inside, y: receiver - head + 25 },
    arrows: [
      { name: "Send", actions: ["SendChunk", "SendBarrier", "SendWatermark"], from: [data, reach.down[0]], to: [data, reach.down[1]], label: [30, 4] },
      { name: "Deliver", actions: ["Deliver"], from: [data, reach.on[0]], to: [data, reach.on[1]], label: [36, 4] },
      { name: "", actions: ["Consume"], from: [between[0], receiver + height / 2], to: [between[1], receiver + height / 2], label: [0, 0] },
      { name: "return", actions: ["Flush"], isReturn: true, from: [permits, reach.on[1]], to: [permits, reach.on[0]], label: [-32, 4] },
      { name: "AddPermits", actions: ["AddPermits"], from: [permits, reach.down[1]], to: [permits, reach.down[0]], label: [-46, 4] },
      { name: "", actions: ["SendChunk"], from: [between[1], sender + height / 2], to: [between[0], sender + height / 2], label: [0, 0] },
    ],
  };
}

function drawArrow(svg, { name, from, to, label }) {
  const group = draw(svg, "g");
  const [dx, dy] = [Math.sign(to[0] - from[0]), Math.sign(to[1] - from[1])];
  draw(group, "path", { class: "arrow", d: `M${from}L${to[0] - 6 * dx} ${to[1] - 6 * dy}` });
  draw(group, "path", {
    class: "arrow-head",
    d: `M${to}L${to[0] - 9 * dx - 5 * dy} ${to[1] - 9 * dy + 5 * dx}L${to[0] - 9 * dx + 5 * dy} ${to[1] - 9 * dy - 5 * dx}z`,
  });
  draw(group, "text", { class: "arrow-name", x: (from[0] + to[0]) / 2 + label[0], y: (from[1] + to[1]) / 2 + label[1] }, name);
  return group;
}

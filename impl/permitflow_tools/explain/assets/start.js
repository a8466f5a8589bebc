// What the page shows first.

const data = JSON.parse(document.getElementById("run").textContent);

if (data.settings) new Playground(data).start();
else new Player(data.graph ? new ExploredRun(data, data.graph.run) : new Run(data), viewsOfRun).start();

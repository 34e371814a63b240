// What the page needs of Cytoscape for its graphs; `make vendor` bundles it.

import cytoscape from "cytoscape";
import fcose from "cytoscape-fcose";

cytoscape.use(fcose);
export default cytoscape;

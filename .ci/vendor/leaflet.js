// What the page needs of Leaflet for its maps; `make vendor` bundles it.

import L from "leaflet";
import "leaflet.markercluster";

export default L;

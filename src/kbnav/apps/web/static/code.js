// A query as programs ask it of its service.

const python = (service, query) => `import requests

query = ${query.includes('"""') ? JSON.stringify(query) : `r"""\n${query}\n"""`}
headers = {"User-Agent": "your tool (you@example.org)", "Accept": "application/sparql-results+json"}
reply = requests.get("${service}", params={"query": query}, headers=headers)
reply.raise_for_status()
for row in reply.json()["results"]["bindings"]:
    print({name: cell["value"] for name, cell in row.items()})
`;
const javascript = (service, query) => `const url = "${service}?" + new URLSearchParams({ query: ${JSON.stringify(query)} });
const reply = await fetch(url, { headers: { Accept: "application/sparql-results+json" } });
console.table((await reply.json()).results.bindings);
`;
const curl = (service, query) => `curl -G -A 'your tool (you@example.org)' -H 'Accept: text/csv' --data-urlencode 'query=${query.replaceAll("'", "'\\''")}' '${service}'\n`;

/** By the names of languages, what gives the code for a service's address and a query. */
export const CODE = { Python: python, JavaScript: javascript, curl };

// Queries as Wikidata's query service is asked them.

/** A plain list with the names of its `things` as columns of their own; any other query, as one with comments, as it is. */
export function withNames(query, things) {
  const [, head, listed, rest, end] = /^(.*?\bSELECT\s+(?:DISTINCT\s+)?)((?:\?[^\s(){}]+\s+)+)((?:WHERE\s*)?\{[^]*)\}((?:\s*(?:ORDER BY|LIMIT|OFFSET)\b[^{}]*)?\s*)$/is.exec(query) ?? [];
  const named = listed?.replace(/\?(\S+)/g, (all, name) => (things.includes(name) && !query.includes(`?${name}Label`) ? `${all} ${all}Label` : all));
  if (named === listed || /wikibase:label|GROUP\s+BY|\}\s*VALUES|(?:^|\s)#/i.test(query)) return query;
  return `${head}${named}${rest.trimEnd()}\n  SERVICE wikibase:label { bd:serviceParam wikibase:language "[AUTO_LANGUAGE],mul,en". }\n}${end}`;
}

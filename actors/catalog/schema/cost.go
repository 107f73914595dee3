package schema

// counter tells how much work a schema can make.
type counter struct {
	root   node
	known  map[string]int // of a reference; -1 while it is being counted
	cyclic bool
}

// paths counts the subschemas at and below n, references followed each time, up to a little over maxPaths.
func (c *counter) paths(n node, depth int) int {
	const maxNesting = 200
	if depth > maxNesting {
		return maxPaths + 1
	}
	total := 1
	if ref := n.get("$ref").text(); ref != "" {
		total += c.reference(ref, depth)
	}
	c.cyclic = c.cyclic || n.has("$dynamicRef") || n.has("$recursiveRef")
	for _, m := range n.members() {
		for _, e := range append(m.value.items(), m.value) {
			if e.kind() == '{' {
				total += c.paths(e, depth+1)
			}
			if total > maxPaths {
				return maxPaths + 1
			}
		}
	}
	return total
}

func (c *counter) reference(ref string, depth int) int {
	count, met := c.known[ref]
	switch {
	case !met:
		c.known[ref] = -1
		count = c.paths(c.root.find(ref), depth+1)
		c.known[ref] = count
	case count < 0: // a cycle, which ends where the arguments do
		c.cyclic = true
		return 0
	}
	return count
}

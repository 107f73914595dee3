package schema

import (
	"cmp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Nearest are the at most three of names that name may have meant, best first: by edit distance, case not counted,
// and by being a part of it.
func Nearest(name string, names []string) []string {
	const maxLen = 200 // of a name that is compared: the distance costs the product of both lengths
	type near struct {
		name        string
		cost, exact int
	}
	var found []near
	folded := strings.ToLower(name[:min(len(name), maxLen)])
	for _, n := range names {
		if len(n) > maxLen {
			continue
		}
		other := strings.ToLower(n)
		cost := levenshtein.ComputeDistance(folded, other)
		if len(folded) > 2 && (strings.Contains(other, folded) || strings.Contains(folded, other) && len(other) > 2) {
			cost = min(cost, 2)
		}
		if cost <= max(2, min(len(folded), len(other))/3) {
			found = append(found, near{n, cost, levenshtein.ComputeDistance(name[:min(len(name), maxLen)], n)})
		}
	}
	slices.SortStableFunc(found, func(a, b near) int { return cmp.Or(a.cost-b.cost, a.exact-b.exact) })
	var best []string
	for _, f := range found[:min(len(found), 3)] {
		best = append(best, f.name)
	}
	return best
}

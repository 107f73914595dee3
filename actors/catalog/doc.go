// Package catalog knows which upstream MCP servers there are and what tools they have: definitions from config files
// (package config), Python names (pyname), documentation (schema, text), search (index), and a cache on disk, so that
// servers which are not running are covered as well. Candidates to add come from package registry.
//
// A Catalog is written by those who load config files and talk to servers. Readers take a Snapshot, which never changes:
// a run keeps the one it began with. Names are compared exactly, byte by byte, everywhere.
//
// It knows nothing of connections and nothing of policy: what may be shown is a Filter that the caller gives.
package catalog

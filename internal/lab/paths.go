package lab

import "path/filepath"

// DefaultRoot is where labs keep their state: one folder a lab. It is a
// tmpfs on every current distribution, so a reboot forgets it with the namespaces.
const DefaultRoot = "/run/netkvlab"

// Store is the folder of all labs.
type Store struct{ Root string }

func (s Store) dir(lab string) string     { return filepath.Join(s.Root, lab) }
func (s Store) state(lab string) string   { return filepath.Join(s.dir(lab), "state.json") }
func (s Store) journal(lab string) string { return filepath.Join(s.dir(lab), "journal") }
func (s Store) scenario(lab string) string {
	return filepath.Join(s.dir(lab), "scenario.yaml")
}

// engine names the engine that the lab's containers are with, in a file of its own: it is
// needed most where the state is damaged.
func (s Store) engine(lab string) string { return filepath.Join(s.dir(lab), "engine") }

// agentDir is the private run directory of one node's agent.
func (s Store) agentDir(lab, node string) string {
	return filepath.Join(s.dir(lab), "agents", node)
}

package lab

import "path/filepath"

// DefaultRoot holds the state of labs, one folder per lab. It is on a tmpfs on every current
// distribution, so a reboot removes it together with the namespaces.
const DefaultRoot = "/run/netkvlab"

// Store is the folder of all labs.
type Store struct{ Root string }

func (s Store) dir(lab string) string     { return filepath.Join(s.Root, lab) }
func (s Store) state(lab string) string   { return filepath.Join(s.dir(lab), "state.json") }
func (s Store) journal(lab string) string { return filepath.Join(s.dir(lab), "journal") }
func (s Store) scenario(lab string) string {
	return filepath.Join(s.dir(lab), "scenario.yaml")
}

// engine is the file with the address of the engine of a lab's containers. It is a separate
// file, because it is most needed when the state is damaged.
func (s Store) engine(lab string) string { return filepath.Join(s.dir(lab), "engine") }

// agentDir is the private run directory of one node's agent.
func (s Store) agentDir(lab, node string) string {
	return filepath.Join(s.dir(lab), "agents", node)
}

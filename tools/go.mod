module github.com/netkvlab/netkvlab/tools

go 1.26.0

replace github.com/netkvlab/netkvlab => ../

require (
	github.com/netkvlab/netkvlab v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	golang.org/x/sync v0.25.0
	golang.org/x/tools v0.52.0
	mvdan.cc/sh/v3 v3.14.1
)

require (
	github.com/agnivade/levenshtein v1.2.2 // indirect
	github.com/google/renameio/v2 v2.0.2 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/mod v0.42.0 // indirect
	gonum.org/v1/gonum v0.17.0 // indirect
)

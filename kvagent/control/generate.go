// Package control is the wire contract between netkvlab and its agents: the
// protobuf messages and the gRPC service of control.proto. It holds no logic.
package control

// Protocol is the version of the control protocol that this code speaks.
const Protocol = 1

//go:generate protoc --proto_path=. --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative control.proto

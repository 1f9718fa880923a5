package extensionpb

// protoc 3.21 or later; protoc-gen-go v1.36.12 and protoc-gen-go-grpc v1.6.2 of the folder that `go env GOPATH` names.
//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative extension.proto

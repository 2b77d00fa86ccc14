module github.com/runlot/runlot/examples/webhook-relay/consumer

go 1.26.8

require github.com/cloudflare/cloudflare-go/v6 v6.10.0

require (
	github.com/tidwall/gjson v1.14.4 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.2.1 // indirect
	github.com/tidwall/sjson v1.2.5 // indirect
)

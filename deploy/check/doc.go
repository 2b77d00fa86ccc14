// Package check holds the files in deploy to what the program shows and to what Prometheus and Grafana understand. It is a
// module of its own, so that nothing of Prometheus comes near the product.
package check

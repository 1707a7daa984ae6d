"""The playground page: C compiled to WebAssembly, scripts and style, put into one HTML file."""

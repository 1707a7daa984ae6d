"""Pictures of reservoirs, forecasts and results; reads values, computes nothing new."""

"""What all services over HTTP share: one policy for requests, limits, a cache, and what answers mean."""
